// Stops at runs of 2 tokens.
// wrong: down to 1: the last token alone
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    for n in (2..=ngram.min(ids.len().saturating_sub(1))).rev() {
        let run = &ids[ids.len() - n..];
        if let Some(at) = ids[..ids.len() - 1].windows(n).rposition(|window| window == run) {
            return ids[at + n..].iter().copied().take(count).collect();
        }
    }
    vec![]
}
