//! The options of the load.

use clap::Args;

use crate::Failed;
use crate::shape::Shape;

/// The shape of the load.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many clients acquire and release at once, each as fast as the answers come
    #[arg(long, value_name = "N", default_value_t = 64)]
    clients: usize,
    /// How many semaphores there are
    #[arg(long, value_name = "N", default_value_t = 1)]
    semaphores: usize,
    /// On how many of them each ask is, drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    each: usize,
    /// How many permits of each an ask is for
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// Capacity of each semaphore; unless said, there is room for everybody
    #[arg(long, value_name = "N")]
    capacity: Option<u32>,
    /// Each semaphore has slots: for lockhouse only
    #[arg(long)]
    slots: bool,
    /// Milliseconds that permits are held
    #[arg(long, value_name = "MS", default_value_t = 0)]
    hold_ms: u64,
    /// Milliseconds that a client rests after it has released
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause_ms: u64,
    /// Requests that hold a permit before it begins, and go on doing so
    #[arg(long, value_name = "N", default_value_t = 0)]
    held: u32,
    /// Requests that have ended before it begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    ended: u32,
    /// Seconds before what is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm_up: f64,
    /// Seconds that are measured
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,
    /// The seed of the clients' choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Options {
    /// The load that they come to.
    ///
    /// # Errors
    /// When it can't be.
    pub fn shape(&self) -> Result<Shape, Failed> {
        for (name, number) in [
            ("--clients", self.clients),
            ("--semaphores", self.semaphores),
            ("--each", self.each),
            ("--count", self.count as usize),
        ] {
            if number == 0 {
                return Err(format!("{name} is 0, it takes 1 at least").into());
            }
        }
        if self.each > self.semaphores {
            let (each, semaphores) = (self.each, self.semaphores);
            return Err(
                format!("--each is {each}, and there are {semaphores} --semaphores").into(),
            );
        }
        Ok(Shape {
            clients: self.clients,
            semaphores: self.semaphores,
            each: self.each,
            count: self.count,
            capacity: self.capacity,
            slots: self.slots,
            hold_ms: self.hold_ms,
            pause_ms: self.pause_ms,
            held: self.held,
            ended: self.ended,
            warm_up_ms: ms("--warm-up", self.warm_up)?,
            time_ms: ms("--seconds", self.seconds)?,
            seed: self.seed,
        })
    }
}

fn ms(name: &str, seconds: f64) -> Result<u64, Failed> {
    if !(0.0..=1e9).contains(&seconds) {
        return Err(format!("{name} is {seconds}, it takes 0 or more").into());
    }
    Ok((seconds * 1e3) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn shape(line: &str) -> Result<Shape, String> {
        let line = Line::try_parse_from(line.split(' ')).unwrap();
        line.options.shape().map_err(|error| error.to_string())
    }

    #[test]
    fn impossible_options_are_refused() {
        assert_eq!(
            shape("x --clients 0").unwrap_err(),
            "--clients is 0, it takes 1 at least"
        );
        assert_eq!(
            shape("x --each 2").unwrap_err(),
            "--each is 2, and there are 1 --semaphores"
        );
        let text = "--seconds is NaN, it takes 0 or more";
        assert_eq!(shape("x --seconds NaN").unwrap_err(), text);
        let shape = shape("x --semaphores 2 --each 2 --seconds 0.5").unwrap();
        assert_eq!((shape.semaphores, shape.each, shape.time_ms), (2, 2, 500));
    }

    #[test]
    fn the_default_capacity_fits_all_clients() {
        let capacity = |line| shape(line).unwrap().capacity();
        assert_eq!(capacity("x --clients 3 --count 2 --held 10"), 16);
        assert_eq!(capacity("x --clients 3 --capacity 2"), 2);
    }
}
