//! Shortens a run that fails: leaves out steps as long as it still fails in the same way.

use super::plan::Plan;

/// The shortest plan found that `fails`.
pub(super) fn shrink(plan: &Plan, fails: impl Fn(&Plan) -> bool) -> Plan {
    let mut shortest = plan.clone();
    let mut piece = shortest.steps.len().div_ceil(2);
    while piece > 0 {
        let mut begin = 0;
        while begin < shortest.steps.len() {
            let left_out = shortest.numbers();
            let left_out = &left_out[begin..left_out.len().min(begin + piece)];
            let shorter = shortest.only(|number| !left_out.contains(&number));
            if fails(&shorter) {
                shortest = shorter;
            } else {
                begin += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    shortest
}
