// Goes on one token after the place begins, whatever the length of the run.
// wrong: the first guess is the token right after the run
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    for n in (1..=ngram.min(ids.len().saturating_sub(1))).rev() {
        let run = &ids[ids.len() - n..];
        if let Some(at) = ids[..ids.len() - 1].windows(n).rposition(|window| window == run) {
            return ids[at + 1..].iter().copied().take(count).collect();
        }
    }
    vec![]
}
