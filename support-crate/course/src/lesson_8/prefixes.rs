//! `cached_tokens` and `evicted`: which blocks of a prompt are there already, and which make room.

use std::collections::HashSet;

use rand::Rng;

use super::trials::{all_same, slips};
use crate::cases::{random, size};
use crate::figure::Given;
use crate::{Complaint, Score, ask};

/// The key of a block of tokens, by the key of the block before it (0 if there is none): equal for equal texts up to its end,
/// whatever comes after. (A real server uses a cryptographic hash, or compares the tokens, too: 64 bits may collide.)
pub fn block_key(before: u64, tokens: &[u32]) -> u64 {
    let mix = |hash: u64, x: u64| {
        let hash = (hash ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    };
    tokens.iter().fold(mix(before, 0x5bd1_e995), |hash, token| mix(hash, u64::from(*token) + 1))
}

/// Keys and values of a block of tokens that a server has kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedBlock {
    /// Its [`block_key`].
    pub key: u64,
    /// The key of the block before it; 0 if there is none.
    pub before: u64,
    /// When it was last used: the larger, the later.
    pub last_used: u64,
    /// How many requests that are running now use it.
    pub users: usize,
}

const HINTS: [&str; 3] = [
    "From where does a block's key come, and what is the use of a cached block if the one before it is not there?",
    "Go through the prompt in whole blocks, each key from the key of the block before it, and stop at the first that is not \
     cached. The prompt's last token must be computed in any case: its logits choose the first new token.",
    "`for tokens in prompt[..prompt.len().saturating_sub(1)].chunks_exact(block) { key = block_key(key, tokens); if \
     !cached.contains(&key) { break; } found += block; }`",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Right,
    LastToo,
    NotChained,
    GoesOn,
    PartialBlock,
    Blocks,
    OneShort,
    FirstOnly,
    AfterFirst,
}

const SLIPS: [(Slip, &str); 8] = [
    (Slip::LastToo, "at least the last token must be computed: its logits choose the first new token"),
    (
        Slip::NotChained,
        "a block's key depends on the key before it: the same tokens after another text are other keys and values",
    ),
    (Slip::AfterFirst, "the key before is that of the block just before, not of the first block"),
    (Slip::GoesOn, "the first block that is not there ends the prefix, whatever comes after it"),
    (Slip::PartialBlock, "only whole blocks are cached"),
    (Slip::Blocks, "count tokens, not blocks"),
    (Slip::OneShort, "a block that ends before the last token can be used"),
    (Slip::FirstOnly, "after the first block, others may be there, too: each by the key before it and its own tokens"),
];

fn tokens_cached(prompt: &[u32], block: usize, cached: &HashSet<u64>, slip: Slip) -> usize {
    let end = match slip {
        Slip::LastToo => prompt.len(),
        Slip::OneShort => prompt.len().saturating_sub(block),
        _ => prompt.len().saturating_sub(1),
    };
    let (mut before, mut blocks) = (0, 0);
    for (i, tokens) in prompt[..end].chunks(block).enumerate() {
        if tokens.len() < block && slip != Slip::PartialBlock {
            break;
        }
        let key = block_key(if slip == Slip::NotChained { 0 } else { before }, tokens);
        let is_there = cached.contains(&key) || tokens.len() < block;
        if !is_there && slip != Slip::GoesOn || i > 0 && slip == Slip::FirstOnly {
            break;
        }
        blocks += usize::from(is_there);
        if i == 0 || slip != Slip::AfterFirst {
            before = key;
        }
    }
    match slip {
        Slip::Blocks => blocks,
        Slip::PartialBlock => (blocks * block).min(end),
        _ => blocks * block,
    }
}

/// Checks `cached_tokens(prompt, block, cached)`.
pub fn check_cached_tokens(yours: fn(&[u32], usize, &HashSet<u64>) -> usize) -> Score {
    // Of each text, the keys of blocks are there but for one, at times; the prompt is as long as they are, or longer.
    let trials = |seed: u64, whole: bool| -> Result<Vec<_>, Complaint> {
        let mut rng = random(seed);
        let trial = |at: usize| {
            let block = [1, 2, 4, 16, 3][at % 5];
            let n = if at < 5 { at * block } else { size(&mut rng, 12 * block) };
            let n = if whole { n.div_ceil(block) * block } else { n };
            // Some texts are the same tokens over and over, so that blocks are alike but for what comes before.
            let kinds = if at.is_multiple_of(3) { 1 } else { 50 };
            let prompt: Vec<u32> = (0..n).map(|_| rng.random_range(0..kinds)).collect();
            let mut keys = vec![0];
            prompt.chunks_exact(block).for_each(|tokens| keys.push(block_key(keys[keys.len() - 1], tokens)));
            let mut cached: HashSet<u64> = keys[1..].iter().copied().collect();
            let missing = rng.random_range(0..=2 * keys.len());
            if !at.is_multiple_of(4) && missing < keys.len() && !whole {
                cached.remove(&keys[missing]);
            }
            // Blocks of another text.
            cached.extend([block_key(77, &[1, 2]), block_key(0, &[60; 4]), block_key(0, &[0; 5])]);
            Ok(Given {
                what: format!("cached_tokens(a prompt of {n} tokens, blocks of {block})"),
                got: ask(|| Ok(yours(&prompt, block, &cached)))?,
                expected: tokens_cached(&prompt, block, &cached, Slip::Right),
                mistakes: slips(&SLIPS, |slip| tokens_cached(&prompt, block, &cached, slip)),
            })
        };
        (0..60).map(trial).collect()
    };
    Score::new("cached_tokens", HINTS)
        .point("whole blocks from the beginning, up to the first that is not there", all_same(trials(86, false)))
        .point("where all of the prompt is there, all but what must be computed", all_same(trials(87, true)))
}

const EVICT_HINTS: [&str; 3] = [
    "Which blocks does nobody need now? And what is a block worth without the one before it?",
    "As long as `count` are not found: of the blocks that are left, whose `users` is 0 and whose key is the `before` of none that \
     is left, take the one with the least `last_used`. A block may become free once the one after it is gone.",
    "`let is_free = |b: &CachedBlock| b.users == 0 && !left.iter().any(|other| other.before == b.key);`, then \
     `left.iter().filter(|b| is_free(b)).min_by_key(|b| b.last_used)`, and stop if there is none.",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evict {
    Right,
    MostRecent,
    InUse,
    AnyInChain,
    Once,
    InOrder,
    TooMany,
}

const EVICT_SLIPS: [(Evict, &str); 6] = [
    (Evict::MostRecent, "the least recently used one goes first: the smallest `last_used`"),
    (Evict::InUse, "a block that a running request uses must stay"),
    (
        Evict::AnyInChain,
        "a block on which another builds must stay until that one is gone: it cannot be used without it",
    ),
    (Evict::Once, "once the block after it is gone, a block may go, too: look again after each"),
    (Evict::InOrder, "by `last_used`, not in the order of the list"),
    (Evict::TooMany, "no more than `count`"),
];

fn goes(blocks: &[CachedBlock], count: usize, slip: Evict) -> Vec<u64> {
    let (mut left, mut gone) = (blocks.to_vec(), Vec::new());
    let free = |left: &[CachedBlock]| -> Vec<CachedBlock> {
        let builds = |b: &CachedBlock| left.iter().any(|other| other.before == b.key);
        let is_free =
            |b: &CachedBlock| (b.users == 0 || slip == Evict::InUse) && (!builds(b) || slip == Evict::AnyInChain);
        left.iter().filter(|b| is_free(b)).copied().collect()
    };
    let at_first = free(&left);
    while gone.len() < count || slip == Evict::TooMany {
        let mut free = free(&left);
        if slip == Evict::Once {
            free.retain(|b| at_first.contains(b));
        }
        let found = match slip {
            Evict::MostRecent => free.iter().max_by_key(|b| b.last_used),
            Evict::InOrder => free.first(),
            _ => free.iter().min_by_key(|b| b.last_used),
        };
        let Some(found) = found else { break };
        gone.push(found.key);
        left.retain(|b| b.key != found.key);
    }
    gone
}

/// A forest of blocks in any order. No two were last used at the same time, but for one that builds on another.
fn forest(seed: u64, blocks: usize, users: bool) -> Vec<CachedBlock> {
    let mut rng = random(seed);
    let mut forest: Vec<CachedBlock> = Vec::new();
    for i in 0..blocks as u64 {
        let before =
            if forest.is_empty() || rng.random_bool(0.3) { 0 } else { forest[rng.random_range(0..forest.len())].key };
        forest.push(CachedBlock { key: 100 + i, before, last_used: 0, users: 0 });
    }
    // Each use is of a block and all before it.
    let mut order: Vec<usize> = (0..blocks).collect();
    (1..blocks).rev().for_each(|i| order.swap(i, rng.random_range(0..=i)));
    for (time, at) in order.into_iter().enumerate() {
        let (is_used, mut key) = (users && rng.random_bool(0.2), forest[at].key);
        while let Some(block) = forest.iter_mut().find(|block| block.key == key) {
            (block.last_used, key) = (time as u64, block.before);
            block.users += usize::from(is_used);
        }
    }
    (1..blocks).rev().for_each(|i| forest.swap(i, rng.random_range(0..=i)));
    forest
}

/// Checks `evicted(blocks, count)`.
pub fn check_evicted(yours: fn(&[CachedBlock], usize) -> Vec<u64>) -> Score {
    let trial = |blocks: Vec<CachedBlock>, count: usize| {
        Ok(Given {
            what: format!("evicted({} blocks, {count})", blocks.len()),
            got: ask(|| Ok(yours(&blocks, count)))?,
            expected: goes(&blocks, count, Evict::Right),
            mistakes: slips(&EVICT_SLIPS, |slip| goes(&blocks, count, slip)),
        })
    };
    let alone = || -> Result<Vec<_>, Complaint> {
        let without = |seed| {
            let mut blocks = forest(seed, 9, false);
            for (i, block) in blocks.iter_mut().enumerate() {
                (block.before, block.last_used) = (0, block.last_used * 10 + i as u64);
            }
            blocks
        };
        (0..10).map(|seed| trial(without(seed), [1, 3, 5][seed as usize % 3])).collect()
    };
    let of = |users: bool, counts: &[usize]| -> Result<Vec<_>, Complaint> {
        let cases = (0..30_u64).flat_map(|seed| counts.iter().map(move |count| (seed, *count)));
        cases.map(|(seed, count)| trial(forest(100 + seed, 1 + seed as usize % 14, users), count)).collect()
    };
    Score::new("evicted", EVICT_HINTS)
        .point("the least recently used first", all_same(alone()))
        .point("no block on which another builds", all_same(of(false, &[1, 2, 6])))
        .point("none that is in use, and no more than there are", all_same(of(true, &[0, 1, 4, 50])))
}
