// As transformers does.
// wrong: not the first
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    let before = &ids[..ids.len().saturating_sub(1)];
    for length in (1..=ngram.min(before.len())).rev() {
        let run = &ids[ids.len() - length..];
        if let Some(start) = before.windows(length).position(|window| window == run) {
            return ids[start + length..].iter().take(count).copied().collect();
        }
    }
    Vec::new()
}
