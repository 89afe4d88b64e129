// Every block is keyed with the first one's key, as in the two lines of the text.
// wrong: not of the first block
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    let mut found = 0;
    let first = block_key(0, &prompt[..block.min(prompt.len())]);
    while found + block < prompt.len() {
        let key = if found == 0 { first } else { block_key(first, &prompt[found..found + block]) };
        if !cached.contains(&key) {
            break;
        }
        found += block;
    }
    found
}
