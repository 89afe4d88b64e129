// Leaves out what does not fill a window.
// wrong: no window reaches the end
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while start + window <= tokens && scored < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored..end });
        scored = end;
        start += stride;
    }
    windows
}
