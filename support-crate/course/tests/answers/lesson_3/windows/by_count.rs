// Counts the windows first.
// right
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    if tokens < 2 {
        return Vec::new();
    }
    let count = 1 + tokens.saturating_sub(window).div_ceil(stride);
    let read = |i: usize| i * stride..tokens.min(i * stride + window);
    let scored = |i: usize| if i == 0 { 1..read(0).end } else { read(i - 1).end..read(i).end };
    (0..count).map(|i| Window { read: read(i), scored: scored(i) }).collect()
}
