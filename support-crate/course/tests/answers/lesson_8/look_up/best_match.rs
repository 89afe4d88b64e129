// The longest match of all places, the last of the longest.
// right
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    let n = ids.len();
    let mut best = (0, 0);
    for end in 1..n {
        let same = (1..=ngram.min(end)).take_while(|k| ids[end - k] == ids[n - k]).count();
        if same > 0 && same >= best.0 {
            best = (same, end);
        }
    }
    if best.0 == 0 { Vec::new() } else { ids[best.1..].iter().copied().take(count).collect() }
}
