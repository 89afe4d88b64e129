// Two loops and a flag.
// right
fn pareto_front(points: &[(f64, f64)]) -> Vec<usize> {
    let mut front = Vec::new();
    for i in 0..points.len() {
        let mut beaten = false;
        for j in 0..points.len() {
            let (a, b) = (points[j], points[i]);
            if (a.0 < b.0 && a.1 <= b.1) || (a.0 <= b.0 && a.1 < b.1) {
                beaten = true;
            }
        }
        if !beaten {
            front.push(i);
        }
    }
    front
}
