// Leaves the overlap to the next window.
// wrong: holds it already
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window);
        let upto = if end == tokens { end } else { (start + stride + 1).min(end) };
        windows.push(Window { read: start..end, scored: scored..upto });
        scored = upto;
        start += stride;
    }
    windows
}
