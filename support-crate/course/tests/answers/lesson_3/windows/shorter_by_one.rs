// One token less.
// wrong: as many tokens as a window has
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens && start + 1 < tokens {
        let end = tokens.min(start + window - 1).max(start + 2);
        windows.push(Window { read: start..end, scored: scored..end });
        scored = end;
        start += stride;
    }
    windows
}
