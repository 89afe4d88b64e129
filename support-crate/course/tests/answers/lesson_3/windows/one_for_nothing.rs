// There is always a window.
// wrong: has nothing to predict
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    loop {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored..end.max(scored) });
        scored = end;
        start += stride;
        if scored >= tokens {
            return windows;
        }
    }
}
