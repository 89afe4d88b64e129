//! Checkpoints of bitsandbytes whose parts contradict each other.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::change::{any_edit, any_json};
use super::try_out;
use crate::common::copy::{CONFIG, TOKENIZER, WEIGHTS, header_and_data, with_header};

/// The layer that lies.
const LAYER: &str = "transformer.h.1.mlp.c_fc";

#[derive(Clone)]
struct Tensor {
    name: String,
    dtype: Value,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct Checkpoint {
    config: Value,
    tensors: Vec<Tensor>,
}

static CHECKPOINTS: LazyLock<[Checkpoint; 4]> =
    LazyLock::new(|| ["int8", "fp4", "nf4", "nf4-double"].map(Checkpoint::read));
static TOKENIZER_JSON: LazyLock<Vec<u8>> =
    LazyLock::new(|| fs::read(Path::new("tests/golden/gpt2-tiny").join(TOKENIZER)).unwrap());

impl Checkpoint {
    fn read(name: &str) -> Self {
        let folder = Path::new("tests/golden").join(format!("gpt2-tiny-bnb-{name}"));
        let weights = fs::read(folder.join(WEIGHTS)).unwrap();
        let (header, data) = header_and_data(&weights);
        let header = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
        let tensors = header.map(|(name, entry)| {
            let size = |value: &Value| value.as_u64().unwrap() as usize;
            let [start, end] = [0, 1].map(|side| size(&entry["data_offsets"][side]));
            let shape = entry["shape"].as_array().unwrap().iter().map(size).collect();
            Tensor { name: name.clone(), dtype: entry["dtype"].clone(), shape, bytes: data[start..end].to_vec() }
        });
        let config = serde_json::from_slice(&fs::read(folder.join(CONFIG)).unwrap()).unwrap();
        Self { config, tensors: tensors.collect() }
    }

    fn weights(&self) -> Vec<u8> {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for Tensor { name, dtype, shape, bytes } in &self.tensors {
            let offsets = [data.len(), data.len() + bytes.len()];
            header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
            data.extend_from_slice(bytes);
        }
        with_header(&Value::Object(header).to_string(), &data)
    }

    fn try_out(&self) -> Result<Option<String>, TestCaseError> {
        try_out(self.config.to_string().as_bytes(), &TOKENIZER_JSON, &self.weights())
    }

    /// The parts of the layer's weight, the weight among them.
    fn parts(&mut self) -> Vec<&mut Tensor> {
        let is_part = |name: &str| name.starts_with(LAYER) && !name.ends_with(".bias");
        self.tensors.iter_mut().filter(|tensor| is_part(&tensor.name)).collect()
    }

    fn part(&mut self, end: &str) -> &mut Tensor {
        self.parts().into_iter().find(|tensor| tensor.name.ends_with(end)).unwrap()
    }

    /// Sets keys of the layer's quant state, if it has one.
    fn set_state(&mut self, key: &str, value: Value) {
        if let Some(tensor) = self.parts().into_iter().find(|tensor| tensor.name.contains(".quant_state.")) {
            let mut state: Value = serde_json::from_slice(&tensor.bytes).unwrap();
            state[key] = value;
            tensor.set_bytes(state.to_string().into_bytes());
        }
    }

    fn remove(&mut self, end: &str) {
        let name = self.part(end).name.clone();
        self.tensors.retain(|tensor| tensor.name != name);
    }
}

impl Tensor {
    /// Of as many numbers as these are.
    fn set_bytes(&mut self, bytes: Vec<u8>) {
        self.shape = vec![bytes.len() / if self.dtype == "F32" { 4 } else { 1 }];
        self.bytes = bytes;
    }

    /// Longer ones go on from the beginning.
    fn set_len(&mut self, len: usize) {
        let bytes = len * if self.dtype == "F32" { 4 } else { 1 };
        let longer = self.bytes.iter().copied().cycle().take(bytes).collect();
        self.set_bytes(longer);
    }
}

const STATE_KEYS: [&str; 7] =
    ["quant_type", "blocksize", "dtype", "shape", "nested_blocksize", "nested_dtype", "nested_offset"];

#[derive(Debug, Clone)]
enum Lie {
    State(&'static str, Value),
    Len(Index, usize),
    Remove(Index),
    Flip(Index, Index, u8),
}

impl Lie {
    fn tell(self, checkpoint: &mut Checkpoint) {
        let part = |checkpoint: &mut Checkpoint, at: Index| at.get(&checkpoint.parts()).name.clone();
        match self {
            Self::State(key, value) => checkpoint.set_state(key, value),
            Self::Len(at, len) => {
                let name = part(checkpoint, at);
                checkpoint.part(&name).set_len(len);
            }
            Self::Remove(at) => {
                let name = part(checkpoint, at);
                checkpoint.remove(&name);
            }
            Self::Flip(at, byte, bits) => {
                let name = part(checkpoint, at);
                let bytes = &mut checkpoint.part(&name).bytes;
                let at = byte.index(bytes.len());
                bytes[at] ^= bits;
            }
        }
    }
}

fn any_lie() -> impl Strategy<Value = Lie> {
    let key = || prop::sample::select(STATE_KEYS.to_vec());
    let words = prop::sample::select(vec!["nf4", "fp4", "NF4", "int8", "float32", "bfloat16", "float8", ""]);
    prop_oneof![
        (key(), any_json()).prop_map(|(key, value)| Lie::State(key, value)),
        (key(), words).prop_map(|(key, word)| Lie::State(key, json!(word))),
        [0..1_u64 << 62, 0..300].prop_map(|shape| Lie::State("shape", json!(shape))),
        (any::<Index>(), 1..2000_usize).prop_map(|(at, len)| Lie::Len(at, len)),
        any::<Index>().prop_map(Lie::Remove),
        (any::<Index>(), any::<Index>(), 1..=u8::MAX).prop_map(|(at, byte, bits)| Lie::Flip(at, byte, bits)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_error_names_the_layer_that_lies(which in 0..4_usize, lie in any_lie()) {
        let mut checkpoint = CHECKPOINTS[which].clone();
        lie.tell(&mut checkpoint);
        if let Some(error) = checkpoint.try_out()? {
            prop_assert!(error.contains(LAYER), "{error}");
        }
    }

    #[test]
    fn any_quantization_config(which in 0..4_usize, key in any::<Index>(), value in any_json()) {
        let mut checkpoint = CHECKPOINTS[which].clone();
        let keys = checkpoint.config["quantization_config"].as_object_mut().unwrap();
        let key = key.get(&keys.keys().cloned().collect::<Vec<_>>()).clone();
        keys.insert(key, value);
        checkpoint.try_out()?;
    }

    #[test]
    fn any_bytes_of_quantized_weights(which in 0..4_usize, edits in prop::collection::vec(any_edit(), 1..4)) {
        let checkpoint = &CHECKPOINTS[which];
        let mut weights = checkpoint.weights();
        edits.into_iter().for_each(|edit| edit.apply(&mut weights));
        try_out(checkpoint.config.to_string().as_bytes(), &TOKENIZER_JSON, &weights)?;
    }
}

const INT8: usize = 0;
const FP4: usize = 1;
const NF4: usize = 2;
const NESTED: usize = 3;

#[track_caller]
fn expect(which: usize, lie: impl FnOnce(&mut Checkpoint), field: &str) {
    let mut checkpoint = CHECKPOINTS[which].clone();
    lie(&mut checkpoint);
    let error = checkpoint.try_out().unwrap().unwrap_or_else(|| panic!("loads, whatever its `{field}`"));
    assert!(error.contains(LAYER) && error.contains(field), "{error}");
}

#[test]
fn quant_states_that_lie() {
    for (which, key, value, named) in [
        (NF4, "shape", json!([256, 32]), "[256, 32], expected [256, 64]"),
        (NF4, "shape", json!([1_u64 << 40, 1_u64 << 40]), "[1099511627776, 1099511627776]"),
        (NF4, "shape", json!([16384]), "[16384]"),
        (FP4, "shape", json!([-1, 64]), "quant_state"),
        (NF4, "blocksize", json!(48), "the blocksize cannot be 48"),
        (FP4, "blocksize", json!(128), "absmax"),
        (FP4, "blocksize", json!(0), "block"),
        (FP4, "blocksize", json!(1_u64 << 63), "block"),
        (FP4, "quant_type", json!("nf4"), "quant_map"),
        (NF4, "quant_type", json!("int4"), "int4"),
        (NF4, "dtype", json!("float8"), "float8"),
        (NF4, "nested_blocksize", json!(256), "nested_offset"),
        (NESTED, "nested_blocksize", json!(null), "absmax"),
        (NESTED, "nested_blocksize", json!(64), "nested_blocksize"),
        (NESTED, "nested_dtype", json!("float16"), "nested_dtype"),
        (NESTED, "nested_offset", json!(null), "nested_offset"),
        (NESTED, "nested_offset", json!(1e39), "offset"),
    ] {
        expect(which, |checkpoint| checkpoint.set_state(key, value), named);
    }
}

#[test]
fn parts_that_do_not_fit() {
    for (which, part, len, named) in [
        (NF4, ".absmax", 255, ".absmax"),
        (NF4, ".absmax", 257, ".absmax"),
        (NF4, ".quant_map", 15, ".quant_map"),
        (NF4, ".weight", 8191, "8191 packed bytes"),
        (NESTED, ".weight.absmax", 255, "255 absmax values"),
        (NESTED, ".nested_absmax", 2, ".nested_absmax"),
        (NESTED, ".nested_quant_map", 255, ".nested_quant_map"),
        (INT8, ".SCB", 255, ".SCB"),
        (INT8, ".weight", 16383, "[16383]"),
    ] {
        expect(which, |checkpoint| checkpoint.part(part).set_len(len), named);
    }
    for (which, part) in [
        (NF4, ".absmax"),
        (NF4, ".quant_map"),
        (NF4, "__nf4"),
        (NESTED, ".nested_quant_map"),
        (NESTED, ".nested_absmax"),
        (INT8, ".SCB"),
    ] {
        expect(which, |checkpoint| checkpoint.remove(part), part);
    }
    let misshapen = |checkpoint: &mut Checkpoint| checkpoint.part(".absmax").shape = vec![128, 2];
    expect(NF4, misshapen, ".absmax` has shape [128, 2], expected [256]");
    let first = |part: &'static str, value: f32| {
        move |checkpoint: &mut Checkpoint| checkpoint.part(part).bytes[..4].copy_from_slice(&value.to_le_bytes())
    };
    expect(NF4, first(".absmax", f32::NAN), "absmax 0 is NaN");
    expect(INT8, first(".SCB", -1.0), "row 0 is -1");
    expect(INT8, |checkpoint| checkpoint.part(".weight_format").bytes[0] = 1, "weight_format");
    expect(INT8, |checkpoint| checkpoint.part(".weight_format").dtype = json!("I8"), "weight_format");
    let text = |checkpoint: &mut Checkpoint| checkpoint.part("__nf4").set_bytes(b"{\"quant_type\": \"nf".to_vec());
    expect(NF4, text, "quant_state");
}
