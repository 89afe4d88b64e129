//! `get_model_memory_footprint`: bytes, each counted once.

use crate::course::{Check, Complaint, Score, ask};
use crate::model::{TensorInfo, TensorKind};

const MIB: usize = 1 << 20;

const HINTS: [&str; 3] = [
    "How many bytes does one tensor take, and which tensors of the list have memory of their own?",
    "`numel` elements of `element_size` bytes each. A tensor with `tied_to: Some(..)` is another name for memory that \
     is in the list already. Whether it is a parameter or a buffer makes no difference.",
    "`tensors.iter().filter(|tensor| tensor.tied_to.is_none()).map(|tensor| tensor.numel * \
     tensor.element_size).sum::<usize>() as f64 / (1024.0 * 1024.0)`",
];

/// Checks `get_model_memory_footprint(tensors)`, in MiB.
pub fn check_get_model_memory_footprint(yours: impl Fn(&[TensorInfo]) -> f64) -> Score {
    let parameter = |name, rows, size| TensorInfo::plain(name, TensorKind::Parameter, &[rows, 1024], size);
    let embedding = parameter("wte.weight", 1024, 1);
    // Elements of one byte, so that the unit is all that can be wrong here.
    let unit = ask(|| Ok(yours(std::slice::from_ref(&embedding)))).and_then(counts_something);
    // In units of what one MiB gave, so that another unit is complained about once.
    let mib = |tensors: &[TensorInfo]| {
        let unit = unit.clone()?;
        Ok::<_, Complaint>(ask(|| Ok(yours(tensors)))? / unit)
    };
    let expect = |tensors: &[TensorInfo], expected: f64, mistakes: &[(f64, &str)]| {
        let got = mib(tensors)?;
        let is = |value: f64| (got - value).abs() < 1e-3;
        match mistakes.iter().find(|(value, _)| is(*value)) {
            _ if is(expected) => Ok(()),
            Some((_, why)) => Err(Complaint::wrong(*why)),
            None => Err(Complaint::wrong(format!("{} gave {got:.3}, expected {expected:.3}", listed(tensors)))),
        }
    };
    let sizes = expect(
        &[parameter("float32", 256, 4), parameter("bfloat16", 512, 2)],
        2.0,
        &[(0.75, "`element_size` was not used: an element of float32 takes 4 bytes, one of bfloat16 2")],
    );
    let mask = TensorInfo::plain("attn.bias", TensorKind::Buffer, &[1, 1, 1024, 2048], 1);
    let buffers = expect(
        &[embedding.clone(), mask],
        3.0,
        &[
            (1.0, "the buffers were left out: the causal masks of a GPT-2 take memory too"),
            (2.0, "the parameters were left out"),
        ],
    );
    let head = TensorInfo { tied_to: Some(embedding.name.clone()), ..parameter("lm_head.weight", 1024, 1) };
    let tied = expect(
        &[embedding.clone(), head],
        1.0,
        &[
            (
                2.0,
                "a tensor with `tied_to` has no memory of its own, but was counted again: the head of GPT-2 would weigh \
                   150 MiB too many",
            ),
            (0.0, "the tensor that others are tied to was left out: its memory is there, once"),
        ],
    );
    let packed = TensorInfo { numel: MIB, ..parameter("c_fc.weight", 2048, 1) };
    let packed = expect(
        &[packed],
        1.0,
        &[(
            2.0,
            "a matrix of 4-bit weights was counted by its `shape`; two codes share a byte, and `numel` counts bytes",
        )],
    );
    Check::new("get_model_memory_footprint", HINTS)
        .point("each element counts with its size", sizes)
        .point("parameters and buffers are counted", buffers)
        .point("memory that two tensors share is counted once", tied)
        .point("packed weights are counted as they are kept", packed)
        .about(&unit, "the result is in MiB", |&unit| in_mib(unit))
        .score()
}

fn counts_something(footprint: f64) -> Result<f64, Complaint> {
    if footprint.is_finite() && footprint > 0.0 {
        Ok(footprint)
    } else {
        Err(Complaint::wrong(format!("a parameter of {MIB} elements of one byte gave {footprint}")))
    }
}

fn in_mib(unit: f64) -> Result<(), Complaint> {
    let is = |value: f64| (unit / value - 1.0).abs() < 1e-6;
    let bytes = MIB as f64;
    let what = match () {
        () if is(1.0) => return Ok(()),
        () if is(bytes) => "that is in bytes",
        () if is(bytes / 1e6) => "that is in MB of 10^6 bytes; the library divides by 1024 * 1024",
        () if is(1024.0) => "that is in KiB",
        () if is(4.0) => "4 bytes for each element, whatever its `element_size`",
        () => "no unit that the check knows",
    };
    Err(Complaint::wrong(format!("{MIB} bytes are 1 MiB, yours says {unit}: {what}")))
}

fn listed(tensors: &[TensorInfo]) -> String {
    let one = |tensor: &TensorInfo| format!("{} of {} bytes", tensor.numel, tensor.element_size);
    tensors.iter().map(one).collect::<Vec<_>>().join(" and ")
}
