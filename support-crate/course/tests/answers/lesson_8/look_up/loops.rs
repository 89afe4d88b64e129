// Loops over places, and compares with `ends_with`.
// right
fn look_up(ids: &[u32], ngram: usize, count: usize) -> Vec<u32> {
    let n = ids.len();
    let mut length = ngram;
    while length > 0 {
        if length < n {
            let run = ids[n - length..].to_vec();
            for end in (length..n).rev() {
                if ids[..end].ends_with(&run) {
                    let stop = n.min(end + count);
                    return ids[end..stop].to_vec();
                }
            }
        }
        length -= 1;
    }
    vec![]
}
