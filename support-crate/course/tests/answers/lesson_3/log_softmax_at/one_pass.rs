// Goes over the logits once, rescaling the running sum whenever a new maximum turns up.
// right
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let mut biggest = f64::NEG_INFINITY;
    let mut sum = 0.0_f64;
    for &logit in logits {
        let z = f64::from(logit);
        if z == f64::NEG_INFINITY {
            continue; // adds nothing
        }
        if z > biggest {
            sum = sum * (biggest - z).exp() + 1.0;
            biggest = z;
        } else {
            sum += (z - biggest).exp();
        }
    }
    f64::from(logits[id as usize]) - biggest - sum.ln()
}
