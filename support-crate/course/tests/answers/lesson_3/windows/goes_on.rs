// Goes on until no window begins before the end.
// wrong: which have nothing to score
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while start + 1 < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored..end });
        scored = end;
        start += stride;
    }
    windows
}
