// The first of the list.
// wrong: not in the order of the list
fn evicted(blocks: &[CachedBlock], count: usize) -> Vec<u64> {
    let (mut left, mut gone) = (blocks.to_vec(), Vec::new());
    while gone.len() < count {
        let is_last = |block: &&CachedBlock| !left.iter().any(|other| other.before == block.key);
        let free = left.iter().filter(|block| block.users == 0).filter(is_last);
        let mut free = free;
        let Some(found) = free.next() else { break };
        let key = found.key;
        left.retain(|block| block.key != key);
        gone.push(key);
    }
    gone
}
