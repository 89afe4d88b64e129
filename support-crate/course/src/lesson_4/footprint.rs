//! `get_model_memory_footprint`: bytes, each counted once.

use rand::Rng;

use quantlab::model::{TensorInfo, TensorKind};

use crate::cases::{random, size};
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, Verdict, ask};

const MIB: usize = 1 << 20;

const HINTS: [&str; 3] = [
    "How many bytes does one tensor take, and which tensors of the list have memory of their own?",
    "`numel` elements of `element_size` bytes each. A tensor with `tied_to: Some(..)` is another name for memory that \
     is already in the list. Whether it is a parameter or a buffer makes no difference.",
    "`tensors.iter().filter(|tensor| tensor.tied_to.is_none()).map(|tensor| tensor.numel * \
     tensor.element_size).sum::<usize>() as f64 / (1024.0 * 1024.0)`",
];

/// Checks `get_model_memory_footprint(tensors)`, in MiB.
pub fn check_get_model_memory_footprint(yours: fn(&[TensorInfo]) -> f64) -> Score {
    // Elements of one byte, so that the unit is all that can be wrong here.
    let unit = ask(|| Ok(yours(&[parameter("wte.weight", 1024, 1)]))).and_then(counts_something);
    // In units of what one MiB gave, so that a wrong unit is reported only once.
    let fit = |lists: Vec<Vec<TensorInfo>>| -> Verdict {
        let figures =
            lists.into_iter().map(|tensors| Ok(figure(&tensors, ask(|| Ok(yours(&tensors)))? / unit.clone()?)));
        // A KiB or a thousandth: the sum may be cut off to whole KiB.
        all_right(&figures.collect::<Result<Vec<_>, Complaint>>()?, |a, b| (a - b).abs() < 1e-3 + 1e-9 * b)
    };
    let bias = |layer: usize| TensorInfo::plain(format!("h.{layer}.bias"), TensorKind::Parameter, &[185 + layer], 4);
    let mask = |name: &str| TensorInfo::plain(name, TensorKind::Buffer, &[1, 1, 1024, 1792], 1);
    Score::new("get_model_memory_footprint", HINTS)
        .point("each element counts with its size", {
            fit(vec![
                vec![parameter("float32", 256, 4), parameter("bfloat16", 640, 2)],
                (0..40).map(bias).collect(),
                // Above 4 GiB, and above 4 G elements.
                vec![parameter("large", 3 << 20, 2), parameter("half", 512, 1), parameter("larger", 5 << 20, 8)],
                vec![],
            ])
        })
        .point("parameters and buffers are counted", {
            fit(vec![
                vec![parameter("wte.weight", 768, 1), mask("attn.bias")],
                vec![mask("attn.bias"), mask("h.1.attn.bias")],
            ])
        })
        .point("memory that two tensors share is counted once", fit(tied()))
        .point(
            "packed weights are counted as they are kept",
            fit(vec![vec![TensorInfo { numel: 3 * MIB / 4, ..parameter("c_fc.weight", 1536, 1) }]])
                .and_then(|()| fit(any_lists())),
        )
        .about(&unit, "the result is in MiB", |&unit| in_mib(unit))
}

fn parameter(name: &str, rows: usize, size: usize) -> TensorInfo {
    TensorInfo::plain(name, TensorKind::Parameter, &[rows, 1024], size)
}

fn tied_to(owner: &TensorInfo, name: &str) -> TensorInfo {
    TensorInfo { name: name.to_owned(), tied_to: Some(owner.name.clone()), ..owner.clone() }
}

/// A head that is tied, one that is not, and other tensors that are: `tied_to` decides, not the name.
fn tied() -> Vec<Vec<TensorInfo>> {
    let embedding = parameter("wte.weight", 1280, 1);
    let head = tied_to(&embedding, "lm_head.weight");
    // As large as the embedding, and not tied.
    let own_head = TensorInfo { name: "lm_head.weight".to_owned(), ..embedding.clone() };
    let mask = TensorInfo::plain("h.0.attn.bias", TensorKind::Buffer, &[1, 1, 1024, 1536], 1);
    let same_mask = tied_to(&mask, "h.1.attn.bias");
    let shared = parameter("encoder.embed_tokens.weight", 896, 1);
    let decoder = tied_to(&shared, "decoder.embed_tokens.weight");
    let third = tied_to(&shared, "lm_head.weight");
    vec![
        vec![embedding.clone(), head.clone()],
        vec![embedding.clone(), own_head],
        vec![mask, same_mask],
        vec![decoder.clone(), embedding, shared.clone(), head],
        vec![third, shared, decoder],
    ]
}

/// Lists as models have them, and of no order: packed and plain, tied and not, alike in shape or not.
fn any_lists() -> Vec<Vec<TensorInfo>> {
    let mut rng = random(43);
    let names = ["wte.weight", "mlp.c_fc.weight", "attn.bias", "ln_f.weight", "lm_head.weight", "rotary.inv_freq"];
    let mut list = |tensors: usize| {
        let mut list: Vec<TensorInfo> = Vec::new();
        for number in 0..tensors {
            let kind = if rng.random_bool(0.3) { TensorKind::Buffer } else { TensorKind::Parameter };
            let (shape, element_size) =
                ([size(&mut rng, 4000), 1 << rng.random_range(0..12)], 1 << rng.random_range(0..4));
            let plain =
                TensorInfo::plain(format!("h.{number}.{}", names[number % names.len()]), kind, &shape, element_size);
            list.push(match rng.random_range(0..6) {
                0 if number > 0 => {
                    let owner = list[rng.random_range(0..number)].clone();
                    tied_to(
                        &TensorInfo { name: owner.tied_to.clone().unwrap_or(owner.name.clone()), ..owner },
                        &plain.name,
                    )
                }
                1 => TensorInfo { numel: plain.numel.div_ceil(2), element_size: 1, ..plain },
                2 if number > 0 => TensorInfo { name: plain.name, tied_to: None, ..list[number - 1].clone() },
                _ => plain,
            });
        }
        list
    };
    [1, 2, 5, 20, 150].map(&mut list).to_vec()
}

/// The footprint of some tensors in MiB, and what mistakes make of it.
fn figure(tensors: &[TensorInfo], got: f64) -> Figure {
    let sum = |counts: &dyn Fn(&TensorInfo) -> bool, bytes: &dyn Fn(&TensorInfo) -> usize| {
        tensors.iter().filter(|tensor| counts(tensor)).map(bytes).sum::<usize>() as f64 / MIB as f64
    };
    let bytes = |tensor: &TensorInfo| tensor.numel * tensor.element_size;
    let own = |tensor: &TensorInfo| tensor.tied_to.is_none();
    let is = |tensor: &TensorInfo, kind: TensorKind| tensor.kind == kind;
    let is_owner = |tensor: &TensorInfo| tensors.iter().any(|other| other.tied_to.as_ref() == Some(&tensor.name));
    let same_shape = |tensor: &TensorInfo| {
        tensors
            .iter()
            .find(|other| own(other) && other.shape == tensor.shape)
            .is_some_and(|first| first.name == tensor.name)
    };
    let by_name =
        "a tensor was left out by its name or shape: what is not tied (`tied_to` is `None`) has memory of its own";
    let expected = sum(&own, &bytes);
    let vanished = if tensors.iter().all(|tensor| bytes(tensor) < MIB) { 0.0 } else { f64::NAN };
    let mistakes = vec![
        (vanished, "small tensors vanished: add bytes up, and divide once, as `f64`"),
        (
            sum(&own, &|tensor| tensor.numel),
            "`element_size` was not used: an element of float32 takes 4 bytes, one of bfloat16 2",
        ),
        (
            sum(&|tensor| own(tensor) && is(tensor, TensorKind::Parameter), &bytes),
            "the buffers were left out: the causal masks of a GPT-2 take memory too",
        ),
        (sum(&|tensor| own(tensor) && is(tensor, TensorKind::Buffer), &bytes), "the parameters were left out"),
        (
            sum(&|_| true, &bytes),
            "a tensor with `tied_to` has no memory of its own, but was counted again: the head of GPT-2 would add 147 MiB",
        ),
        (
            sum(&|tensor| own(tensor) || is(tensor, TensorKind::Buffer), &bytes),
            "a buffer with `tied_to` was counted again: not only parameters can be tied",
        ),
        (
            sum(&|tensor| own(tensor) || !tensor.name.contains("lm_head"), &bytes),
            "a tensor with `tied_to` was counted again: not only a head can be tied",
        ),
        (
            sum(&|tensor| own(tensor) && !is_owner(tensor), &bytes),
            "the tensor that others are tied to was left out: its memory is there, once",
        ),
        (sum(&|tensor| !tensor.name.contains("lm_head"), &bytes), by_name),
        (sum(&|tensor| own(tensor) && !tensor.name.contains("lm_head"), &bytes), by_name),
        (sum(&|tensor| own(tensor) && same_shape(tensor), &bytes), by_name),
        (
            sum(&own, &|tensor| tensor.shape.iter().product::<usize>() * tensor.element_size),
            "a matrix of 4-bit weights was counted by its `shape`; two codes share a byte, and `numel` counts bytes",
        ),
        (expected.floor(), "dividing whole numbers drops the fraction; turn the bytes into `f64` first"),
    ];
    Figure { what: format!("the footprint of {}, in MiB,", listed(tensors)), got, expected, mistakes }
}

fn counts_something(footprint: f64) -> Result<f64, Complaint> {
    if footprint.is_finite() && footprint > 0.0 {
        Ok(footprint)
    } else {
        wrong!("a parameter of {MIB} elements of one byte gave {footprint}")
    }
}

fn in_mib(unit: f64) -> Verdict {
    let is = |value: f64| (unit / value - 1.0).abs() < 1e-6;
    let bytes = MIB as f64;
    let what = match () {
        () if is(1.0) => return Ok(()),
        () if is(bytes) => ": that is in bytes",
        () if is(bytes / 1e6) => ": that is in MB of 10^6 bytes; divide by 1024 * 1024",
        () if is(1024.0) => ": that is in KiB",
        () if is(8.0) => ": that is in Mibit; `element_size` is in bytes",
        () if is(4.0) => ": 4 bytes for each element, whatever its `element_size`",
        () => "",
    };
    wrong!("{MIB} bytes are 1 MiB, but yours says {unit}{what}")
}

fn listed(tensors: &[TensorInfo]) -> String {
    let one = |tensor: &TensorInfo| {
        let tied = tensor.tied_to.as_ref().map_or_else(String::new, |owner| format!(", tied to {owner}"));
        format!("{} ({} elements of {} bytes{tied})", tensor.name, tensor.numel, tensor.element_size)
    };
    const MAX_SHOWN: usize = 4;
    let all: Vec<String> = tensors.iter().take(MAX_SHOWN).map(one).collect();
    match tensors.len() {
        0 => "no tensors".to_owned(),
        n if n > MAX_SHOWN => format!("{} and {} more", all.join(", "), n - MAX_SHOWN),
        _ => all.join(" and "),
    }
}
