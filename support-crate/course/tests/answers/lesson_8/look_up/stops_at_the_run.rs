// Guesses no token of the run itself.
// wrong: may reach into the run at the end
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    for n in (1..=ngram.min(ids.len().saturating_sub(1))).rev() {
        let run = &ids[ids.len() - n..];
        if let Some(at) = ids[..ids.len() - 1].windows(n).rposition(|window| window == run) {
            return ids[(at + n).min(ids.len() - n)..ids.len() - n].iter().copied().take(count).collect();
        }
    }
    vec![]
}
