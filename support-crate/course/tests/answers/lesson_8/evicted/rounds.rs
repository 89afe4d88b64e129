// In rounds: all that may go now, by age; then all that may go after that.
// wrong: evicted(
fn evicted(blocks: &[CachedBlock], count: usize) -> Vec<u64> {
    let mut remaining: Vec<&CachedBlock> = blocks.iter().collect();
    let mut gone = vec![];
    loop {
        let parents: HashSet<u64> = remaining.iter().map(|block| block.before).collect();
        let (mut free, rest): (Vec<&CachedBlock>, Vec<&CachedBlock>) =
            remaining.into_iter().partition(|block| block.users == 0 && !parents.contains(&block.key));
        if free.is_empty() {
            break;
        }
        free.sort_by_key(|block| block.last_used);
        gone.extend(free.iter().map(|block| block.key));
        remaining = rest;
    }
    gone.truncate(count);
    gone
}
