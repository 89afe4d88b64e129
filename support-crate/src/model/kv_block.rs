//! Keys and values of some tokens, apart from the sequence that they were computed in.

use std::fmt;
use std::ops::Range;

use super::{CacheStorage, ModelIdentity};

/// Keys and values of every layer for some tokens that follow each other, to be put into other caches. Those of a token
/// depend on it, on its position and on what came before: where these are the same, nothing need be computed again.
pub struct KvBlock {
    pub(super) model: ModelIdentity,
    pub(super) tokens: Range<usize>,
    pub(super) storage: CacheStorage,
}

impl KvBlock {
    /// Where its tokens stand in their sequence.
    pub fn tokens(&self) -> Range<usize> {
        self.tokens.clone()
    }
}

impl fmt::Debug for KvBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvBlock {{ tokens: {:?} }}", self.tokens)
    }
}
