//! Keys and values of prompts that were there before, by their tokens.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::Result;
use crate::model::KvBlock;

/// Tokens of a block. Prompts share whole blocks, from the first on.
pub const BLOCK: usize = 16;

/// A tree of blocks: what lies on the way from the root to a block are the tokens before it. Of blocks that nobody
/// needs and that nothing follows, the one that was used least recently goes first.
///
/// Source: Zheng et al. 2023, "SGLang", arXiv:2312.07104 (RadixAttention); Kwon et al. 2023, arXiv:2309.06180 (blocks).
pub(super) struct PrefixCache {
    nodes: HashMap<usize, Node>,
    next: usize,
    uses: u64,
}

#[derive(Default)]
struct Node {
    parent: usize,
    tokens: Box<[u32]>,
    /// `None` in a simulation, where nothing is computed, and in the root.
    block: Option<KvBlock>,
    children: HashMap<Box<[u32]>, usize>,
    used: u64,
}

const ROOT: usize = 0;

impl PrefixCache {
    pub(super) fn new() -> Self {
        Self { nodes: HashMap::from([(ROOT, Node::default())]), next: ROOT + 1, uses: 0 }
    }

    /// Tokens that it holds.
    pub(super) fn tokens(&self) -> usize {
        (self.nodes.len() - 1) * BLOCK
    }

    /// The longest way along the tokens of a prompt, root excluded.
    fn path(&self, ids: &[u32]) -> Vec<usize> {
        let mut at = ROOT;
        let next = |tokens: &[u32]| {
            at = *self.nodes[&at].children.get(tokens)?;
            Some(at)
        };
        ids.chunks_exact(BLOCK).map_while(next).collect()
    }

    /// How many of the first tokens of a request it has. One at least is left to be computed, since its logits are
    /// wanted.
    pub(super) fn matching(&self, ids: &[u32]) -> usize {
        self.path(&ids[..ids.len() - 1]).len() * BLOCK
    }

    /// Shows `take` the blocks that [`matching`](Self::matching) counts, in order.
    pub(super) fn take(&mut self, ids: &[u32], take: &mut dyn FnMut(Option<&KvBlock>) -> Result<()>) -> Result<()> {
        let path = self.path(&ids[..ids.len() - 1]);
        self.touch(&path);
        path.iter().try_for_each(|node| take(self.nodes[node].block.as_ref()))
    }

    /// Adds the blocks of `ids`, whole ones, from token `known` on, a multiple of the block's size: `copy` makes those
    /// that are not there yet. If what comes before has been dropped meanwhile, nothing is added.
    pub(super) fn add(
        &mut self,
        ids: &[u32],
        known: usize,
        copy: &mut dyn FnMut(Range<usize>) -> Result<Option<KvBlock>>,
    ) -> Result<()> {
        let mut path = self.path(ids);
        let whole = ids.len() / BLOCK;
        if path.len() < known / BLOCK {
            return Ok(());
        }
        for index in path.len()..whole {
            let range = index * BLOCK..(index + 1) * BLOCK;
            let (tokens, block): (Box<[u32]>, _) = (ids[range.clone()].into(), copy(range)?);
            let (parent, node) = (path.last().copied().unwrap_or(ROOT), self.next);
            self.next += 1;
            self.nodes.get_mut(&parent).expect("on the path").children.insert(tokens.clone(), node);
            self.nodes.insert(node, Node { parent, tokens, block, ..Node::default() });
            path.push(node);
        }
        self.touch(&path);
        Ok(())
    }

    /// Drops blocks until there are at most so many tokens.
    pub(super) fn shrink_to(&mut self, tokens: usize) {
        while self.tokens() > tokens {
            let leaves = self.nodes.iter().filter(|(id, node)| **id != ROOT && node.children.is_empty());
            let oldest = leaves.min_by_key(|(id, node)| (node.used, **id)).map(|(id, _)| *id);
            let Some(node) = oldest.and_then(|id| self.nodes.remove(&id)) else { return };
            self.nodes.get_mut(&node.parent).expect("outlives its children").children.remove(&node.tokens);
        }
    }

    fn touch(&mut self, path: &[usize]) {
        self.uses += 1;
        for node in path {
            self.nodes.get_mut(node).expect("on the path").used = self.uses;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(blocks: &[u32]) -> Vec<u32> {
        blocks.iter().flat_map(|&block| [block; BLOCK]).collect()
    }

    fn add(cache: &mut PrefixCache, blocks: &[u32]) -> usize {
        let mut copied = 0;
        let mut copy = |_: Range<usize>| {
            copied += 1;
            Ok(None)
        };
        cache.add(&ids(blocks), 0, &mut copy).unwrap();
        copied
    }

    #[test]
    fn prompts_share_their_first_blocks() {
        let mut cache = PrefixCache::new();
        assert_eq!((add(&mut cache, &[1, 2, 3]), add(&mut cache, &[1, 2, 4]), add(&mut cache, &[1, 2])), (3, 1, 0));
        assert_eq!(cache.tokens(), 4 * BLOCK);
        assert_eq!(cache.matching(&[ids(&[1, 2]), vec![9]].concat()), 2 * BLOCK);
        assert_eq!(cache.matching(&ids(&[1, 2])), BLOCK, "the last token is computed");
        assert_eq!((cache.matching(&ids(&[2, 1])), cache.matching(&[1])), (0, 0));
        let mut seen = 0;
        cache
            .take(&[ids(&[1, 2, 4]), vec![9]].concat(), &mut |_| {
                seen += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 3);
    }

    #[test]
    fn what_was_used_least_recently_goes_first_and_never_before_what_follows_it() {
        let mut cache = PrefixCache::new();
        add(&mut cache, &[1, 2]);
        add(&mut cache, &[1, 3]);
        cache.take(&ids(&[1, 2, 9]), &mut |_| Ok(())).unwrap();
        cache.shrink_to(2 * BLOCK);
        assert_eq!((cache.matching(&ids(&[1, 2, 9])), cache.matching(&ids(&[1, 3, 9]))), (2 * BLOCK, BLOCK));
        cache.shrink_to(BLOCK);
        assert_eq!(cache.matching(&ids(&[1, 2, 9])), BLOCK);
        // What follows blocks that are gone is not added.
        cache.add(&ids(&[1, 2, 4]), 2 * BLOCK, &mut |_| panic!("nothing to copy")).unwrap();
        cache.shrink_to(0);
        assert_eq!((cache.tokens(), cache.matching(&ids(&[1, 2, 9]))), (0, 0));
    }
}
