//! A model's tensors by name: memory-mapped safetensors files, or random numbers.
//!
//! A tensor is read straight into the memory that it is computed from, converted and turned around on
//! the way, and the pages of the file that held it are given back at once: loading needs little more
//! memory than the weights themselves.

mod convert;
mod random;
mod shard;
mod write;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::source::WeightSource;

pub(in crate::model) use convert::Slot;
use shard::Shard;
pub(in crate::model) use write::{StateTensor, write};

/// The tensors of a model, not yet loaded.
pub struct Weights {
    origin: Origin,
    check_finite: bool,
    used: RefCell<BTreeSet<String>>,
}

enum Origin {
    Files { shards: Vec<Shard>, shard_of: HashMap<String, usize> },
    Random { seed: u64 },
}

impl Weights {
    /// Opens the files and checks their headers; no tensor is read yet. With `check_finite`, reading a
    /// tensor that holds a NaN or an infinity is an error.
    ///
    /// # Errors
    /// A file that cannot be opened, is cut short, or whose header does not describe it; files that have a tensor
    /// of the same name.
    pub fn open(source: &WeightSource, check_finite: bool) -> Result<Self> {
        let origin = match source {
            WeightSource::Random { seed } => Origin::Random { seed: *seed },
            WeightSource::Safetensors(files) => {
                let shards = files.iter().map(Shard::open).collect::<Result<Vec<_>>>()?;
                let mut shard_of = HashMap::new();
                for (i, shard) in shards.iter().enumerate() {
                    for name in shard.names() {
                        if let Some(other) = shard_of.insert(name.clone(), i) {
                            let other = &shards[other];
                            return Err(Error::format(format!("{other} and {shard} both have a tensor `{name}`"))
                                .hint("the files may be of two models; download or save the model again"));
                        }
                    }
                }
                Origin::Files { shards, shard_of }
            }
        };
        Ok(Self { origin, check_finite, used: RefCell::default() })
    }

    /// Whether there is a tensor of this name. Random weights have every tensor but a separate head.
    pub(in crate::model) fn contains(&self, name: &str) -> bool {
        match &self.origin {
            Origin::Files { shard_of, .. } => shard_of.contains_key(name),
            Origin::Random { .. } => !name.starts_with("lm_head."),
        }
    }

    /// Makes sure that there is a tensor of this name and shape. Memory of a size that a config asks for is set
    /// aside only then: the file is as large as it says, a config can say anything.
    ///
    /// # Errors
    /// No tensor of that name, or another shape.
    pub(in crate::model) fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        match &self.origin {
            Origin::Random { .. } => Ok(()),
            Origin::Files { shards, shard_of } => shard_with(name, shards, shard_of)?.find(name, shape).map(drop),
        }
    }

    /// Reads a tensor into `slot`, in its format.
    ///
    /// # Errors
    /// No tensor of that name, another shape, or numbers that are not floating-point, or not finite when
    /// that is asked for.
    pub(in crate::model) fn read(&self, name: &str, shape: &[usize], slot: Slot<'_>) -> Result<()> {
        self.read_as(name, shape, false, slot)
    }

    /// Reads a matrix that is stored as (in, out), the way GPT-2 stores them, as (out, in).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(in crate::model) fn read_transposed(
        &self,
        name: &str,
        n_in: usize,
        n_out: usize,
        slot: Slot<'_>,
    ) -> Result<()> {
        self.read_as(name, &[n_in, n_out], true, slot)
    }

    /// A matrix (rows, columns) in float32, row by row. `transposed`: the files have it as (columns, rows), as
    /// those of GPT-2 have the weights of linear layers.
    ///
    /// # Errors
    /// No tensor of that name, another shape, or numbers that are not floating-point, or not finite when
    /// that is asked for.
    pub fn matrix(&self, name: &str, (rows, columns): (usize, usize), transposed: bool) -> Result<Vec<f32>> {
        let mut numbers = Vec::new();
        self.read_matrix(name, (rows, columns), transposed, &mut numbers)?;
        Ok(numbers)
    }

    /// As [`matrix`](Self::matrix), into a place that can be used again.
    pub(in crate::model) fn read_matrix(
        &self,
        name: &str,
        (rows, columns): (usize, usize),
        transposed: bool,
        numbers: &mut Vec<f32>,
    ) -> Result<()> {
        self.check(name, &if transposed { [columns, rows] } else { [rows, columns] })?;
        numbers.clear();
        numbers.resize(rows * columns, 0.0);
        match transposed {
            true => self.read_transposed(name, columns, rows, Slot::Float32(numbers)),
            false => self.read(name, &[rows, columns], Slot::Float32(numbers)),
        }
    }

    /// The bytes of a tensor of any shape that holds them, with or without sign.
    ///
    /// # Errors
    /// No tensor of that name, or one of other numbers.
    pub(in crate::model) fn bytes(&self, name: &str, signed: bool) -> Result<Vec<u8>> {
        self.used.borrow_mut().insert(name.to_owned());
        match &self.origin {
            Origin::Random { .. } => Err(Error::system("random weights are not stored")),
            Origin::Files { shards, shard_of } => shard_with(name, shards, shard_of)?.bytes_of(name, signed),
        }
    }

    fn read_as(&self, name: &str, shape: &[usize], transpose: bool, slot: Slot<'_>) -> Result<()> {
        self.used.borrow_mut().insert(name.to_owned());
        match &self.origin {
            Origin::Random { seed } => random::fill(*seed, name, slot),
            Origin::Files { shards, shard_of } => {
                let shard = shard_with(name, shards, shard_of)?;
                let all_finite = shard.read(name, shape, transpose, slot)?;
                if self.check_finite && !all_finite {
                    return Err(Error::format(format!("{shard}: tensor `{name}` holds a NaN or an infinity")).hint(
                        "the file is damaged, or the model's training went wrong; get it again or take another",
                    ));
                }
                Ok(())
            }
        }
    }

    /// The tensors that nobody asked for, in alphabetical order, without those that older versions of
    /// transformers saved though they can be computed.
    pub(in crate::model) fn unused(&self) -> Vec<String> {
        let Origin::Files { shard_of, .. } = &self.origin else { return Vec::new() };
        let computable = [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"];
        let used = self.used.borrow();
        let is_unused = |name: &&String| !used.contains(*name) && !computable.iter().any(|end| name.ends_with(end));
        shard_of.keys().filter(is_unused).cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn shard_with<'a>(name: &str, shards: &'a [Shard], shard_of: &HashMap<String, usize>) -> Result<&'a Shard> {
    shard_of.get(name).map(|&index| &shards[index]).ok_or_else(|| missing(name, shards))
}

fn missing(name: &str, shards: &[Shard]) -> Error {
    let files: Vec<String> = shards.iter().map(ToString::to_string).collect();
    let (files, have) = match files.as_slice() {
        [file] => (file.clone(), "has"),
        [first, .., last] => (format!("{first} to {last}"), "have"),
        [] => ("the model".to_owned(), "has"),
    };
    Error::format(format!("{files} {have} no tensor `{name}`"))
        .hint("do config.json and the weights belong to the same model?")
}
