//! Blocks as files have them.

use std::collections::BTreeMap;

use quantlab::error::{Error, Result};
use quantlab::quant::{encode_ggml, restore_ggml};
use quantlab::report::Table;
use quantlab::source::{GgmlType, Gguf, ModelFile, ModelId, WeightSource};

use super::CalibratedLayer;
use crate::{Claims, claim};

/// Blocks of one format, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredBlocks {
    /// Their format.
    pub kind: GgmlType,
    /// Where they are from.
    pub source: String,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

/// How much of what a function made is llama.cpp's, to the bit.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreed {
    kind: &'static str,
    what: &'static str,
    bits: f64,
    source: String,
    same: usize,
    all: usize,
}

/// What agrees, function by function.
pub fn agreed_table(counts: &[Agreed]) -> Table {
    Table::new("Your blocks and llama.cpp's")
        .column("format", "", counts.iter().map(|one| one.kind))
        .column("per number", "bits", counts.iter().map(|one| one.bits))
        .column("blocks of", "", counts.iter().map(|one| one.source.as_str()))
        .column("compared", "", counts.iter().map(|one| one.what))
        .column("the same to the bit", "", counts.iter().map(|one| one.same))
        .column("of", "", counts.iter().map(|one| one.all))
}

/// Whether all numbers do; bytes may differ where a number lies between two codes.
pub fn agreed_claim(counts: &[Agreed]) -> Claims {
    let holds = |what: &str, least: f64| {
        let all: Vec<&Agreed> = counts.iter().filter(|one| one.what == what).collect();
        (!all.is_empty()).then(|| all.iter().all(|one| one.same as f64 >= least * one.all as f64))
    };
    claim("each number that you decoded is llama.cpp's, to the bit", holds("decoded numbers", 1.0))
        .that("so are the bytes that you encoded, but for one in a thousand at most", holds("encoded bytes", 0.999))
}

/// SmolLM2's file, if it was fetched.
fn smollm2() -> Result<ModelFile> {
    match "smollm2".parse::<ModelId>()?.resolve()?.weights {
        WeightSource::Gguf(file) => Ok(file),
        _ => Err(Error::input("smollm2 is no GGUF file")),
    }
}

impl StoredBlocks {
    /// Of the first matrix in Q4_1 that SmolLM2's own file has; where the file is not here, of what llama.cpp would write for
    /// the layer's weights.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_smollm2(layer: &CalibratedLayer) -> Result<Self> {
        let kind = GgmlType::Q4_1;
        let Ok(file) = smollm2() else { return Self::encoded(kind, layer) };
        let bytes = file.read()?;
        let header = Gguf::read(&bytes)?;
        let found = header.tensors().iter().find(|(_, tensor)| tensor.kind == kind);
        let (name, tensor) = found.ok_or_else(|| Error::format("SmolLM2's file has no tensor in Q4_1"))?;
        Ok(Self { kind, source: format!("{name} of SmolLM2's file"), bytes: bytes[tensor.range.clone()].to_vec() })
    }

    /// Of a layer's weights, as llama.cpp would write them: block after block, whether or not these are whole rows.
    ///
    /// # Errors
    /// As [`encode_ggml`].
    pub fn encoded(kind: GgmlType, layer: &CalibratedLayer) -> Result<Self> {
        let whole = layer.weights.len() / kind.block_len() * kind.block_len();
        let mut bytes = vec![0; whole / kind.block_len() * kind.block_bytes()];
        encode_ggml(kind, &layer.weights[..whole], None, &mut bytes)?;
        Ok(Self { kind, source: format!("{}, encoded", layer.name), bytes })
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.kind.block_bytes()
    }

    /// One of them.
    ///
    /// # Panics
    /// There is no such block.
    pub fn block(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.kind.block_bytes()..][..self.kind.block_bytes()]
    }

    /// Bits for each number.
    pub fn bits(&self) -> f64 {
        8.0 * self.kind.block_bytes() as f64 / self.kind.block_len() as f64
    }

    /// How many numbers a function decodes to the very bits that llama.cpp has.
    pub fn agree(&self, decode: fn(&[u8]) -> Vec<f32>) -> Agreed {
        let mut expected = vec![0.0; self.kind.block_len()];
        let mut same = 0;
        for block in self.bytes.chunks_exact(self.kind.block_bytes()) {
            restore_ggml(self.kind, block, &mut expected);
            let got = decode(block);
            same += got.iter().zip(&expected).filter(|(a, b)| a.to_bits() == b.to_bits()).count();
        }
        self.agreed("decoded numbers", same, self.count() * self.kind.block_len())
    }

    /// How many bytes a function encodes a layer's weights to as llama.cpp does, which these blocks are from.
    pub fn bytes_agree(&self, layer: &CalibratedLayer, encode: fn(&[f32]) -> Vec<u8>) -> Agreed {
        let blocks = layer.weights.chunks_exact(self.kind.block_len()).zip(self.bytes.chunks(self.kind.block_bytes()));
        let same = blocks.map(|(numbers, bytes)| encode(numbers).iter().zip(bytes).filter(|(a, b)| a == b).count());
        self.agreed("encoded bytes", same.sum(), self.bytes.len())
    }

    fn agreed(&self, what: &'static str, same: usize, all: usize) -> Agreed {
        let kind = self.kind.name();
        Agreed { kind, what, bits: self.bits(), source: self.source.clone(), same, all }
    }
}

/// What SmolLM2's file has, format by format.
///
/// # Errors
/// A file that cannot be read.
pub fn file_table() -> Result<Table> {
    let title = "SmolLM2's own file";
    let Ok(file) = smollm2() else {
        return Ok(Table::new(title).note("not here: `cargo lab setup --model smollm2` fetches it"));
    };
    let bytes = file.read()?;
    let header = Gguf::read(&bytes)?;
    let mut kinds: BTreeMap<GgmlType, [usize; 3]> = BTreeMap::new();
    for tensor in header.tensors().values() {
        let [tensors, numbers, bytes] = kinds.entry(tensor.kind).or_default();
        *tensors += 1;
        *numbers += tensor.shape.iter().product::<usize>();
        *bytes += tensor.range.len();
    }
    let each = || kinds.values();
    Ok(Table::new(title)
        .column("format", "", kinds.keys().map(|kind| kind.name()))
        .column("tensors", "", each().map(|[tensors, ..]| *tensors))
        .column("numbers", "", each().map(|[_, numbers, _]| *numbers))
        .column("size", "MiB", each().map(|[.., bytes]| *bytes as f64 / 1_048_576.0))
        .column("per number", "bits", each().map(|[_, numbers, bytes]| 8.0 * *bytes as f64 / *numbers as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, load_model};

    #[test]
    fn what_agrees_is_counted() {
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let layer = CalibratedLayer::of(&loaded, &["Once upon a time"], &["there lived a fisher"]).unwrap();
        let blocks = StoredBlocks::encoded(GgmlType::Q4_0, &layer).unwrap();
        assert_eq!((blocks.count(), blocks.bits(), blocks.block(1).len()), (1024 * 256 / 32, 4.5, 18));
        let decode = |block: &[u8]| {
            let mut numbers = vec![0.0; 32];
            restore_ggml(GgmlType::Q4_0, block, &mut numbers);
            numbers
        };
        let encode = |numbers: &[f32]| {
            let mut bytes = vec![0; 18];
            encode_ggml(GgmlType::Q4_0, numbers, None, &mut bytes).unwrap();
            bytes
        };
        let right = [blocks.agree(decode), blocks.bytes_agree(&layer, encode)];
        assert!(agreed_claim(&right).hold() && right.iter().all(|one| one.same == one.all));
        assert!(!agreed_claim(&[blocks.agree(|_| vec![0.5; 32])]).hold() && agreed_claim(&[]).hold());
        assert!(agreed_table(&right).to_text().contains("encoded bytes"));
    }
}
