//! A model's tensors by name: memory-mapped safetensors or GGUF files, or random numbers.
//!
//! A tensor that the file stores in the format that is computed with stays there, mapped. Any other is read straight
//! into the memory that it is computed from, converted and transposed on the way, and the pages of the file that held
//! it are given back at once: loading needs little more memory than the weights themselves.

mod convert;
mod entry;
mod gguf;
mod gguf_names;
mod packed;
mod random;
mod tensor_file;
mod write;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::buffer::{Buffer, Mapped, Plain, Pooled};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::model::Precision;
use crate::model::fold::{Change, Changed};
use crate::source::{GgmlType, ModelFile, WeightSource};

pub(in crate::model) use convert::Wanted;
pub(in crate::model) use gguf::{BlockRows, row_in_transformers};
pub(in crate::model) use gguf_names::{Difference, POSITIONS, difference, name_in_gguf};
use packed::{Outcome, Packing};
pub(in crate::model) use random::split_mix;
use tensor_file::TensorFile;
pub(in crate::model) use write::{StateTensor, write};

/// The tensors of a model, not yet loaded.
pub struct Weights {
    origin: Origin,
    is_gguf: bool,
    used: RefCell<BTreeSet<String>>,
    /// The formats of blocks that were taken as they are.
    kept: RefCell<BTreeSet<GgmlType>>,
    check_finite: bool,
    packing: Option<Packing>,
    outcome: RefCell<Outcome>,
    /// Tensors that are changed while they are read.
    changed: HashMap<String, Changed>,
}

/// A tensor of a model that has not been read yet.
#[derive(Clone, Copy)]
pub(in crate::model) struct UnreadTensor<'a> {
    pub weights: &'a Weights,
    pub name: &'a str,
    /// The shape that is wanted.
    pub shape: &'a [usize],
    /// Whether the files have a matrix (rows, columns) as (columns, rows), the way GPT-2 has the weights of its linear
    /// layers.
    pub transposed: bool,
}

enum Origin {
    /// The files, and which of them has each tensor.
    Files {
        files: Vec<TensorFile>,
        file_of: HashMap<String, usize>,
    },
    Random {
        seed: u64,
    },
}

impl Origin {
    fn of_files(files: &[ModelFile], check_finite: bool) -> Result<Self> {
        let files = files.iter().map(|file| TensorFile::open(file, check_finite)).collect::<Result<Vec<_>>>()?;
        let mut file_of = HashMap::new();
        for (i, file) in files.iter().enumerate() {
            for name in file.names() {
                if let Some(other) = file_of.insert(name.clone(), i) {
                    let other = &files[other];
                    return Err(Error::format(format!("{other} and {file} both have a tensor `{name}`"))
                        .hint("the files may belong to two models; download or save the model again"));
                }
            }
        }
        Ok(Self::Files { files, file_of })
    }
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
            WeightSource::Safetensors(files) => Origin::of_files(files, check_finite)?,
            WeightSource::Gguf(file) => Origin::of_files(std::slice::from_ref(file), check_finite)?,
        };
        Ok(Self {
            origin,
            is_gguf: matches!(source, WeightSource::Gguf(_)),
            used: RefCell::default(),
            kept: RefCell::default(),
            check_finite,
            packing: None,
            outcome: RefCell::default(),
            changed: HashMap::new(),
        })
    }

    /// Whether they come from a GGUF file, which has every matrix as (rows, columns).
    pub(in crate::model) fn is_gguf(&self) -> bool {
        self.is_gguf
    }

    /// Changes a tensor, whenever it is read from now on, after what has been done to it already.
    pub(in crate::model) fn change(&mut self, name: &str, change: Change) {
        self.changed.entry(name.to_owned()).or_default().changes.push(change);
    }

    /// Makes a tensor `to` of another one as that is now, whether or not there is one of that name.
    pub(in crate::model) fn copy(&mut self, name: &str, to: &str) {
        let mut copy = self.changed.get(name).cloned().unwrap_or_default();
        copy.from.get_or_insert_with(|| name.to_owned());
        self.changed.insert(to.to_owned(), copy);
    }

    /// The names of the formats that numbers were rounded to in the files, and are restored from.
    pub(in crate::model) fn restored_from(&self) -> Vec<String> {
        let Origin::Files { files, .. } = &self.origin else { return Vec::new() };
        let formats: BTreeSet<_> = files.iter().flat_map(TensorFile::formats).collect();
        let blocks = formats.difference(&self.kept.borrow()).map(|kind| kind.name().to_owned()).collect::<Vec<_>>();
        let layers = self.checkpoint_label().filter(|_| self.has_restored_layers());
        blocks.into_iter().chain(layers).collect()
    }

    /// The names of the formats of blocks that [`blocks`](Self::blocks) has given.
    pub(in crate::model) fn kept_in(&self) -> Vec<&'static str> {
        self.kept.borrow().iter().copied().map(GgmlType::name).collect()
    }

    /// Whether the files have a matrix in blocks.
    ///
    /// # Errors
    /// No tensor of that name, or another shape.
    pub(in crate::model) fn is_in_blocks(&self, name: &str, shape: [usize; 2]) -> Result<bool> {
        let Origin::Files { .. } = self.origin else { return Ok(false) };
        Ok(!self.is_packed(name) && self.file_with(name)?.is_in_blocks(name, shape)?)
    }

    /// A matrix in blocks, as the files have it, and whether its scales must be finite.
    ///
    /// # Errors
    /// As [`is_in_blocks`](Self::is_in_blocks); it is not.
    pub(in crate::model) fn blocks(&self, name: &str, shape: [usize; 2]) -> Result<(BlockRows, bool)> {
        let (rows, check_finite) = self.file_with(name)?.blocks(name, shape)?;
        self.kept.borrow_mut().insert(rows.kind());
        Ok((rows, check_finite))
    }

    /// Whether there is a tensor of this name. Random weights have every tensor but a separate head.
    pub(in crate::model) fn contains(&self, name: &str) -> bool {
        match &self.origin {
            Origin::Files { file_of, .. } => file_of.contains_key(name),
            Origin::Random { .. } => !name.starts_with("lm_head."),
        }
    }

    /// Makes sure that the files have a tensor of this name and shape.
    ///
    /// # Errors
    /// No tensor of that name, or another shape.
    pub(in crate::model) fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.file_with(name)?.find(name, shape).map(drop)
    }

    /// Whether the files hold the same twice, by these names, bit by bit. Those that differ do so in the first bytes.
    ///
    /// # Errors
    /// No tensor of one of the names.
    pub(in crate::model) fn are_same(&self, name: &str, other: &str) -> Result<bool> {
        self.file_with(name)?.has_same(name, (self.file_with(other)?, other))
    }

    /// A matrix (rows, columns) in float32, row by row. `transposed`: the files have it as (columns, rows), as
    /// those of GPT-2 have the weights of linear layers.
    ///
    /// # Errors
    /// No tensor of that name, another shape, or numbers that are not floating-point, or not finite when
    /// that is asked for.
    pub fn matrix(&self, name: &str, (rows, columns): (usize, usize), transposed: bool) -> Result<Vec<f32>> {
        let tensor = UnreadTensor { weights: self, name, shape: &[rows, columns], transposed };
        tensor.read().map(Buffer::into_vec)
    }

    /// The content of a tensor of unsigned bytes, of any shape.
    ///
    /// # Errors
    /// No tensor of that name, or one of other numbers.
    pub(in crate::model) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.file_with(name)?.bytes_of(name, false).map(|(bytes, _pages)| bytes.to_vec())
    }

    /// As [`bytes`](Self::bytes), but of signed bytes if `signed`, as numbers that are read repeatedly.
    pub(in crate::model) fn bytes_to_stay<T: Plain>(
        &self,
        name: &str,
        signed: bool,
        number: impl Fn(u8) -> T,
    ) -> Result<Buffer<T>> {
        let (bytes, _pages) = self.file_with(name)?.bytes_of(name, signed)?;
        let mut numbers = Pooled::zeroed(bytes.len())?;
        numbers.iter_mut().zip(bytes).for_each(|(to, &byte)| *to = number(byte));
        Ok(Buffer::Pooled(numbers))
    }

    /// The file that has this tensor.
    fn file_with(&self, name: &str) -> Result<&TensorFile> {
        interrupt::check()?;
        self.used.borrow_mut().insert(name.to_owned());
        let Origin::Files { files, file_of } = &self.origin else {
            return Err(Error::system("random weights are not stored"));
        };
        file_of.get(name).map(|&index| &files[index]).ok_or_else(|| {
            let error = missing(name, files);
            // A checkpoint whose config says how it is quantized has errors of its own.
            if self.packing.is_none() { self.hint_at_codes(name, error) } else { error }
        })
    }

    /// What to do about a weight that is not there, if its layer is there quantized.
    fn hint_at_codes(&self, name: &str, error: Error) -> Error {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let codes = CODES.map(|part| format!("{module}.{part}")).into_iter().find(|codes| self.contains(codes));
        match codes {
            None => error,
            Some(codes) => error.hint(format!(
                "there is `{codes}`: the layers are stored quantized, and config.json does not say how; what \
                 quantize_config.json or quant_config.json says belongs there, as `quantization_config`"
            )),
        }
    }

    /// The tensors that nobody asked for, in alphabetical order, without those that older versions of
    /// transformers saved though they can be computed.
    pub(in crate::model) fn unused(&self) -> Vec<String> {
        let Origin::Files { file_of, .. } = &self.origin else { return Vec::new() };
        let computable = [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"];
        let used = self.used.borrow();
        let is_unused = |name: &&String| !used.contains(*name) && !computable.iter().any(|end| name.ends_with(end));
        file_of.keys().filter(is_unused).cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl UnreadTensor<'_> {
    /// The numbers, one after the other.
    ///
    /// # Errors
    /// No tensor of that name, another shape, or numbers that are not floating-point, or not finite when
    /// that is asked for.
    pub fn read<T: Wanted>(&self) -> Result<Buffer<T>> {
        if let Some(numbers) = self.mapped()? {
            return Ok(Buffer::Mapped(numbers));
        }
        let mut numbers = vec![T::default(); self.len()?];
        self.read_to(&mut numbers)?;
        Ok(Buffer::Owned(numbers))
    }

    /// As [`read`](Self::read), but for numbers that are read repeatedly: what does not stay in the file is [`Pooled`].
    pub fn read_to_stay<T: Wanted>(&self) -> Result<Buffer<T>> {
        if let Some(numbers) = self.mapped()? {
            return Ok(Buffer::Mapped(numbers));
        }
        let mut numbers = Pooled::zeroed(self.len()?)?;
        self.read_to(&mut numbers)?;
        Ok(Buffer::Pooled(numbers))
    }

    /// How many numbers the shape has.
    fn len(&self) -> Result<usize> {
        let len = self.shape.iter().try_fold(1_usize, |len, &size| len.checked_mul(size));
        len.ok_or_else(|| Error::input(format!("tensor `{}`: no memory holds a shape of {:?}", self.name, self.shape)))
    }

    /// The numbers in place in the mapped file, if they are stored there in the wanted format.
    fn mapped<T: Wanted>(&self) -> Result<Option<Mapped<T>>> {
        if !self.is_as_in_files() {
            // Before there is memory for as much as a config says.
            self.check()?;
            return Ok(None);
        }
        self.weights.file_with(self.name)?.mapped(self.name, &self.shape_in_files(), self.transposed)
    }

    /// Whether the files have the numbers in this format, and nothing is done to them on the way.
    ///
    /// # Errors
    /// No tensor of that name, or another shape.
    pub fn is_stored_in(&self, format: Precision) -> Result<bool> {
        let stored = || self.weights.file_with(self.name)?.find(self.name, &self.shape_in_files());
        Ok(self.is_as_in_files() && stored()?.is_plain(format))
    }

    /// Whether the files have the tensor, and nothing is done to it on the way.
    fn is_as_in_files(&self) -> bool {
        let Weights { origin, changed, .. } = self.weights;
        matches!(origin, Origin::Files { .. }) && !self.weights.is_packed(self.name) && !changed.contains_key(self.name)
    }

    /// As [`read`](Self::read), some rows of a matrix, into memory that can be used again.
    pub fn read_rows<T: Wanted>(&self, rows: Range<usize>, numbers: &mut Vec<T>) -> Result<()> {
        let width: usize = self.shape[1..].iter().product();
        let len = rows.len() * width;
        if numbers.capacity() < len {
            // The old memory goes first, and zeros that come from the system need not be written again.
            drop(std::mem::take(numbers));
            *numbers = vec![T::default(); len];
        }
        numbers.resize(len, T::default());
        self.read_from(rows.start * width, numbers)
    }

    /// As [`read`](Self::read), into memory for as many numbers.
    pub fn read_to<T: Wanted>(&self, numbers: &mut [T]) -> Result<()> {
        self.read_from(0, numbers)
    }

    fn read_from<T: Wanted>(&self, start: usize, numbers: &mut [T]) -> Result<()> {
        let Some(changed) = self.weights.changed.get(self.name) else { return self.read_original(start, numbers) };
        let width: usize = self.shape[1..].iter().product();
        let (first, len) =
            if changed.mixes_rows() { (0, self.shape[0] * width) } else { (start / width, numbers.len()) };
        let mut wide = vec![0.0_f32; len];
        self.original(changed).read_original(first * width, &mut wide)?;
        changed.apply(&mut wide, first, width);
        if !convert::all_finite(&wide) {
            return Err(Error::format(format!("tensor `{}` holds a NaN or an infinity after folding", self.name))
                .hint("are its numbers finite in the files? Load the model with `check_finite` and without `fold`"));
        }
        let wanted = &wide[start - first * width..];
        numbers.iter_mut().zip(wanted).for_each(|(number, &wide)| *number = T::from_f32(wide));
        Ok(())
    }

    /// The tensor that a changed one is made from.
    fn original<'b>(&'b self, changed: &'b Changed) -> UnreadTensor<'b> {
        UnreadTensor { name: changed.from.as_deref().unwrap_or(self.name), ..*self }
    }

    /// Reads what the files have.
    fn read_original<T: Wanted>(&self, start: usize, numbers: &mut [T]) -> Result<()> {
        let Self { weights, name, transposed, .. } = *self;
        if let Origin::Random { seed } = weights.origin {
            interrupt::check()?;
            random::fill(seed, name, start, numbers);
            return Ok(());
        }
        // Packed layers are never transposed, whatever the family.
        if weights.restore(name, self.shape, start, numbers)? {
            return Ok(());
        }
        weights.file_with(name)?.read_to(name, &self.shape_in_files(), transposed, start, numbers)
    }

    /// Checks that there is such a tensor, before memory of the size that a config asks for is allocated: a file is as
    /// large as it says, but a config can say anything.
    ///
    /// # Errors
    /// No tensor of that name, or another shape.
    pub fn check(&self) -> Result<()> {
        let Origin::Files { .. } = self.weights.origin else { return Ok(()) };
        let name = self.weights.changed.get(self.name).map_or(self.name, |changed| self.original(changed).name);
        if let (true, &[n, k]) = (self.weights.is_packed(name), self.shape) {
            return self.weights.layer(name, [n, k]).map(drop);
        }
        self.weights.check(name, &self.shape_in_files())
    }

    fn shape_in_files(&self) -> Vec<usize> {
        if self.transposed { self.shape.iter().rev().copied().collect() } else { self.shape.to_vec() }
    }
}

/// What layers have in place of a weight, where they are quantized: by GPTQ and AWQ, by compressed-tensors, by HQQ.
const CODES: [&str; 3] = ["qweight", "weight_packed", "W_q"];

fn missing(name: &str, files: &[TensorFile]) -> Error {
    let files: Vec<String> = files.iter().map(ToString::to_string).collect();
    let (files, have) = match files.as_slice() {
        [file] => (file.clone(), "has"),
        [first, .., last] => (format!("{first} to {last}"), "have"),
        [] => ("the model".to_owned(), "has"),
    };
    Error::format(format!("{files} {have} no tensor `{name}`"))
        .hint("do config.json and the weights belong to the same model?")
}
