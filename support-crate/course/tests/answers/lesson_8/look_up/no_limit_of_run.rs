// The longest common ending, though it is longer than ngram.
// wrong: look_up(
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    let mut best = (0, 0);
    for end in (1..ids.len()).rev() {
        let same = ids[..end].iter().rev().zip(ids.iter().rev()).take_while(|(a, b)| a == b).count();
        if same > best.0 {
            best = (same, end);
        }
    }
    if best.0 == 0 || ngram == 0 { vec![] } else { ids[best.1..].iter().copied().take(count).collect() }
}
