// One token more.
// wrong: that is more than a window
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window + 1);
        windows.push(Window { read: start..end, scored: scored..end });
        scored = end;
        start += stride;
    }
    windows
}
