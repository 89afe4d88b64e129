// As the notebook has it.
// right
fn evicted(blocks: &[CachedBlock], count: usize) -> Vec<u64> {
    let (mut left, mut gone) = (blocks.to_vec(), Vec::new());
    while gone.len() < count {
        let is_last = |block: &&CachedBlock| !left.iter().any(|other| other.before == block.key);
        let free = left.iter().filter(|block| block.users == 0).filter(is_last);
        let Some(found) = free.min_by_key(|block| block.last_used) else { break };
        let key = found.key;
        left.retain(|block| block.key != key);
        gone.push(key);
    }
    gone
}
