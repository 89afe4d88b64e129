// Guesses only if all count tokens are there.
// wrong: if fewer than `count` tokens follow
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    for n in (1..=ngram.min(ids.len().saturating_sub(1))).rev() {
        let run = &ids[ids.len() - n..];
        if let Some(at) = ids[..ids.len() - 1].windows(n).rposition(|window| window == run) {
            return ids.get(at + n..at + n + count).map(|after| after.to_vec()).unwrap_or_default();
        }
    }
    vec![]
}
