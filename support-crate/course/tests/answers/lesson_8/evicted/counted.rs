// Counts the blocks that build on each.
// right
fn evicted(blocks: &[CachedBlock], count: usize) -> Vec<u64> {
    let mut after: std::collections::HashMap<u64, usize> = Default::default();
    for b in blocks { *after.entry(b.before).or_default() += 1; }
    let mut sorted: Vec<CachedBlock> = blocks.to_vec();
    sorted.sort_by_key(|b| b.last_used);
    let mut gone = vec![];
    for _ in 0..count {
        let place = sorted.iter().position(|b| b.users == 0 && after.get(&b.key).copied().unwrap_or(0) == 0);
        match place {
            None => return gone,
            Some(i) => {
                let b = sorted.remove(i);
                *after.get_mut(&b.before).unwrap() -= 1;
                gone.push(b.key);
            }
        }
    }
    gone
}
