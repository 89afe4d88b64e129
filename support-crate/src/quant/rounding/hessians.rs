//! The Hessians of all layers of a model.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use quantlab_kernels::{ThreadScope, thread_scope};

use super::{Factor, Hessian};
use crate::error::{Error, Result};
use crate::quant::float::{check_finite, count_rows};

/// The Hessians of a model's layers, by name. Layers that read the same inputs, as those of queries, keys and values do,
/// share one. A clone is another name for the same numbers.
///
/// [`hessians`](crate::model::hessians) makes them.
#[derive(Clone)]
pub struct Hessians(Arc<Collected>);

struct Collected {
    shared: Vec<Shared>,
    /// The factor that was asked for last: layers that share a Hessian are quantized one after the other.
    last: Mutex<Option<(Asked, Arc<Factor>)>>,
}

/// Which Hessian's factor, the size of its tiles, and whether it is in the order of the inputs' size.
type Asked = (usize, usize, bool);

#[derive(Clone, PartialEq)]
struct Shared {
    layers: Vec<String>,
    hessian: Hessian,
}

impl Hessians {
    /// A layer's Hessian.
    ///
    /// # Errors
    /// The layer was not observed.
    pub fn layer(&self, name: &str) -> Result<&Hessian> {
        self.index(name).map(|index| &self.0.shared[index].hessian)
    }

    fn index(&self, name: &str) -> Result<usize> {
        self.0.shared.iter().position(|shared| shared.layers.iter().any(|layer| layer == name)).ok_or_else(|| {
            Error::input(format!("there is no Hessian of a layer `{name}`"))
                .hint("run `hessians` on the model that is to be quantized, in full precision")
        })
    }

    /// The layers, those that share a Hessian side by side.
    pub fn layers(&self) -> impl Iterator<Item = &str> {
        self.0.shared.iter().flat_map(|shared| shared.layers.iter().map(String::as_str))
    }

    /// How many Hessians there are.
    pub fn count(&self) -> usize {
        self.0.shared.len()
    }

    /// The factor of a layer with `columns` inputs.
    ///
    /// # Errors
    /// A layer that was not observed, or with another number of inputs; no memory.
    pub(crate) fn factor(&self, name: &str, columns: usize, tile: usize, act_order: bool) -> Result<Arc<Factor>> {
        let index = self.index(name)?;
        let hessian = &self.0.shared[index].hessian;
        if hessian.columns() != columns {
            return Err(Error::input(format!(
                "its Hessian is of {} inputs for each token, but the layer has {columns}",
                hessian.columns()
            ))
            .hint("run `hessians` on the model that is to be quantized"));
        }
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = (index, tile, act_order);
        if let Some((of, factor)) = &*last
            && *of == asked
        {
            return Ok(Arc::clone(factor));
        }
        // Its memory, before there is another.
        *last = None;
        let factor = Arc::new(Factor::new(hessian, tile, act_order)?);
        *last = Some((asked, Arc::clone(&factor)));
        Ok(factor)
    }
}

impl PartialEq for Hessians {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.shared == other.0.shared
    }
}

/// `121 Hessians of 211 layers, 4096 tokens`
impl fmt::Display for Hessians {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.0.shared.iter().map(|shared| shared.hessian.tokens()).max().unwrap_or(0);
        write!(f, "{} Hessians of {} layers, {tokens} tokens", self.count(), self.layers().count())
    }
}

impl fmt::Debug for Hessians {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hessians({self})")
    }
}

/// Observes the inputs of linear layers, and adds up their Hessians.
///
/// ```
/// use quantlab::quant::HessianCollector;
///
/// let mut collector = HessianCollector::default();
/// for layer in ["q_proj", "k_proj"] {
///     collector.observe(layer, &[0.5, -1.0, 2.0, 0.0], 2)?;
/// }
/// collector.observe("o_proj", &[1.0, 0.0, 0.0, 1.0], 2)?;
/// let hessians = collector.finish()?;
/// assert_eq!(hessians.to_string(), "2 Hessians of 3 layers, 2 tokens");
/// assert_eq!(hessians.layer("k_proj")?.diagonal(), [4.25, 1.0]);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Default)]
pub struct HessianCollector {
    shared: Vec<Shared>,
    /// What the last layers read, which the next may read too.
    pending: Option<Pending>,
}

struct Pending {
    layers: Vec<String>,
    inputs: Vec<f32>,
    channels: usize,
}

impl HessianCollector {
    /// Observes what goes into a linear layer: any number of tokens, of `channels` inputs each. Call this for each
    /// layer, prompt after prompt; layers that read the same are told by that, one after the other.
    ///
    /// # Errors
    /// Inputs that are not whole tokens, that have a different number of channels than before, or of which one is NaN
    /// or infinite.
    pub fn observe(&mut self, layer: &str, inputs: &[f32], channels: usize) -> Result<()> {
        self.observe_in(&thread_scope(), layer, inputs, channels)
    }

    /// The same with these threads.
    ///
    /// # Errors
    /// As [`observe`](Self::observe).
    pub(crate) fn observe_in(
        &mut self,
        scope: &ThreadScope,
        layer: &str,
        inputs: &[f32],
        channels: usize,
    ) -> Result<()> {
        self.check_width(layer, channels)?;
        if let Some(last) = &mut self.pending
            && last.channels == channels
            && last.inputs == inputs
            && !last.layers.iter().any(|other| other == layer)
        {
            last.layers.push(layer.to_owned());
            return Ok(());
        }
        self.add_pending(scope)?;
        self.check_width(layer, channels)?;
        count_rows("inputs", inputs.len(), channels)
            .and_then(|_| check_finite("input", inputs))
            .map_err(|error| error.context(layer))?;
        self.pending = Some(Pending { layers: vec![layer.to_owned()], inputs: inputs.to_vec(), channels });
        Ok(())
    }

    /// # Errors
    /// Another number of inputs than the layer had before.
    fn check_width(&self, layer: &str, channels: usize) -> Result<()> {
        let before = self.shared.iter().find(|shared| shared.layers.iter().any(|other| other == layer));
        match before.map(|shared| shared.hessian.columns()) {
            Some(before) if before != channels => {
                Err(Error::input(format!("{layer}: {channels} inputs for each token, but {before} before")))
            }
            _ => Ok(()),
        }
    }

    /// Adds what was read last to the Hessians of the layers that read it. Those that shared one until now, and of which
    /// not all read it, go on with copies.
    fn add_pending(&mut self, scope: &ThreadScope) -> Result<()> {
        let Some(Pending { mut layers, inputs, channels }) = self.pending.take() else { return Ok(()) };
        let mut apart = Vec::new();
        for Shared { layers: sharing, hessian } in &mut self.shared {
            let (readers, others): (Vec<_>, Vec<_>) = sharing.drain(..).partition(|layer| layers.contains(layer));
            if readers.is_empty() {
                *sharing = others;
                continue;
            }
            if !others.is_empty() {
                apart.push(Shared { layers: others, hessian: hessian.clone() });
            }
            hessian.add_in(scope, &inputs)?;
            layers.retain(|layer| !readers.contains(layer));
            *sharing = readers;
        }
        if !layers.is_empty() {
            let mut hessian = Hessian::new(channels)?;
            hessian.add_in(scope, &inputs)?;
            apart.push(Shared { layers, hessian });
        }
        self.shared.append(&mut apart);
        Ok(())
    }

    /// The Hessians of all layers, in the order in which they were first observed.
    ///
    /// # Errors
    /// No layer was observed; inputs whose squares are beyond float32.
    pub fn finish(mut self) -> Result<Hessians> {
        self.add_pending(&thread_scope())?;
        if self.shared.is_empty() {
            return Err(Error::input("no layer was observed").hint("run the model on some prompts first"));
        }
        for Shared { layers, hessian } in &self.shared {
            hessian.check().map_err(|error| error.context(&layers[0]))?;
        }
        Ok(Hessians(Arc::new(Collected { shared: self.shared, last: Mutex::new(None) })))
    }
}

impl fmt::Debug for HessianCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HessianCollector({} Hessians)", self.shared.len())
    }
}
