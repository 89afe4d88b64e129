//! `get_model_memory_footprint`: bytes, each counted once.

use crate::course::{Check, Complaint, Score, Verdict, ask};
use crate::model::{TensorInfo, TensorKind};

const MIB: usize = 1 << 20;

const HINTS: [&str; 3] = [
    "How many bytes does one tensor take, and which tensors of the list have memory of their own?",
    "`numel` elements of `element_size` bytes each. A tensor with `tied_to: Some(..)` is another name for memory that \
     is already in the list. Whether it is a parameter or a buffer makes no difference.",
    "`tensors.iter().filter(|tensor| tensor.tied_to.is_none()).map(|tensor| tensor.numel * \
     tensor.element_size).sum::<usize>() as f64 / (1024.0 * 1024.0)`",
];

/// Checks `get_model_memory_footprint(tensors)`, in MiB.
pub fn check_get_model_memory_footprint(yours: impl Fn(&[TensorInfo]) -> f64) -> Score {
    // Elements of one byte, so that the unit is all that can be wrong here.
    let unit = ask(|| Ok(yours(&[parameter("wte.weight", 1024, 1)]))).and_then(counts_something);
    // In units of what one MiB gave, so that another unit is complained about once.
    let expect = |tensors: &[TensorInfo], expected: f64, mistakes: &[(f64, &str)]| {
        let got = ask(|| Ok(yours(tensors)))? / unit.clone()?;
        let is = |value: f64| (got - value).abs() < 1e-3;
        match mistakes.iter().find(|(value, _)| is(*value)) {
            _ if is(expected) => Ok(()),
            Some((_, why)) => Err(Complaint::wrong(*why)),
            None if is(expected.floor()) => wrong!(
                "{} gave {got:.3}, expected {expected:.3}: whole numbers are divided without a fraction; turn the bytes into \
                 `f64` first",
                listed(tensors)
            ),
            None => wrong!("{} gave {got:.3}, expected {expected:.3}", listed(tensors)),
        }
    };
    Check::new("get_model_memory_footprint", HINTS)
        .point(
            "each element counts with its size",
            expect(
                &[parameter("float32", 256, 4), parameter("bfloat16", 640, 2)],
                2.25,
                &[(0.875, "`element_size` was not used: an element of float32 takes 4 bytes, one of bfloat16 2")],
            )
            .and_then(|()| {
                let bias = |layer| TensorInfo::plain(format!("h.{layer}.bias"), TensorKind::Parameter, &[185], 4);
                let biases: Vec<TensorInfo> = (0..40).map(bias).collect();
                let mib = (40 * 185 * 4) as f64 / MIB as f64;
                expect(&biases, mib, &[(0.0, "small tensors vanished: add bytes up, and divide once, as `f64`")])
            }),
        )
        .point("parameters and buffers are counted", {
            let mask = TensorInfo::plain("attn.bias", TensorKind::Buffer, &[1, 1, 1024, 1792], 1);
            expect(&[parameter("wte.weight", 768, 1), mask], 2.5, &[
                (0.75, "the buffers were left out: the causal masks of a GPT-2 take memory too"),
                (1.75, "the parameters were left out"),
            ])
        })
        .point("memory that two tensors share is counted once", tied_once(&expect))
        .point(
            "packed weights are counted as they are kept",
            expect(&[TensorInfo { numel: 3 * MIB / 4, ..parameter("c_fc.weight", 1536, 1) }], 0.75, &[(
                1.5,
                "a matrix of 4-bit weights was counted by its `shape`; two codes share a byte, and `numel` counts bytes",
            )]),
        )
        .about(&unit, "the result is in MiB", |&unit| in_mib(unit))
        .score()
}

fn parameter(name: &str, rows: usize, size: usize) -> TensorInfo {
    TensorInfo::plain(name, TensorKind::Parameter, &[rows, 1024], size)
}

/// What the footprint of some tensors must be, in MiB, and what wrong footprints say.
type Expect<'a> = dyn Fn(&[TensorInfo], f64, &[(f64, &str)]) -> Verdict + 'a;

/// A head that is tied, one that is not, and another tensor that is: `tied_to` decides, not the name.
fn tied_once(expect: &Expect<'_>) -> Verdict {
    let tied =
        |name, to: &TensorInfo| TensorInfo { name: String::from(name), tied_to: Some(to.name.clone()), ..to.clone() };
    let embedding = parameter("wte.weight", 1280, 1);
    let head = tied("lm_head.weight", &embedding);
    let left_out = (0.0, "the tensor that others are tied to was left out: its memory is there, once");
    let by_name =
        "a tensor was left out by its name: a head that is not tied (`tied_to` is `None`) has memory of its own";
    expect(
        &[embedding.clone(), head.clone()],
        1.25,
        &[
            (
                2.5,
                "a tensor with `tied_to` has no memory of its own, but was counted again: the head of GPT-2 would add 150 MiB",
            ),
            left_out,
        ],
    )?;
    // As large as the embedding, and not tied.
    let own_head = TensorInfo { name: "lm_head.weight".to_owned(), ..embedding.clone() };
    expect(&[embedding.clone(), own_head], 2.5, &[(1.25, by_name)])?;
    let mask = TensorInfo::plain("h.0.attn.bias", TensorKind::Buffer, &[1, 1, 1024, 1536], 1);
    let same_mask = tied("h.1.attn.bias", &mask);
    expect(
        &[mask, same_mask],
        1.5,
        &[(3.0, "a buffer with `tied_to` was counted again: not only parameters can be tied")],
    )?;
    let shared = parameter("encoder.embed_tokens.weight", 896, 1);
    let decoder = tied("decoder.embed_tokens.weight", &shared);
    expect(
        &[decoder, embedding, shared, head],
        2.125,
        &[
            (3.0, "a tensor with `tied_to` was counted again: not only a head can be tied"),
            (3.375, "tensors with `tied_to` were counted again: not only a head can be tied"),
            (0.875, "the tensor that others are tied to was left out: its memory is there, once"),
            left_out,
        ],
    )
}

fn counts_something(footprint: f64) -> Result<f64, Complaint> {
    if footprint.is_finite() && footprint > 0.0 {
        Ok(footprint)
    } else {
        wrong!("a parameter of {MIB} elements of one byte gave {footprint}")
    }
}

fn in_mib(unit: f64) -> Result<(), Complaint> {
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
    wrong!("{MIB} bytes are 1 MiB, yours says {unit}{what}")
}

fn listed(tensors: &[TensorInfo]) -> String {
    let one = |tensor: &TensorInfo| {
        let tied = tensor.tied_to.as_ref().map_or_else(String::new, |owner| format!(", tied to {owner}"));
        format!("{} ({} elements of {} bytes{tied})", tensor.name, tensor.numel, tensor.element_size)
    };
    tensors.iter().map(one).collect::<Vec<_>>().join(" and ")
}
