// With loops, and the ends written out.
// right
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let mut nll = 0.0;
    let mut tokens = 0.0;
    for draw in draws {
        nll += draw.nll;
        tokens += draw.tokens as f64;
    }
    let mean = nll / tokens;
    let mut variance = 0.0;
    for draw in draws {
        let off = draw.nll - mean * draw.tokens as f64;
        variance += off * off / (draws.len() - 1) as f64;
    }
    let width = student_t_95(draws.len() - 1) * (variance * draws.len() as f64).sqrt() / tokens;
    Estimate::new(mean, mean - width, mean + width)
}
