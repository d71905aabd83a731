//! Rounded quotients of decimals, which the engine cuts.

use arrow::datatypes::i256;

/// Digits that a step of a long division adds: any remainder with as many digits more fits 256 bits.
const STEP: u32 = 38;

/// Returns `dividend * 10^exponent / divisor`, rounded to the nearest integer, and away from zero at a half. Returns
/// `None` if it does not fit, or the divisor is zero.
pub fn rounded_quotient(dividend: i128, divisor: i128, exponent: u32) -> Option<i128> {
    if let Some(dividend) = 10_i128.checked_pow(exponent).and_then(|factor| dividend.checked_mul(factor)) {
        let (quotient, remainder) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
        let below = divisor.unsigned_abs() - remainder.unsigned_abs();
        let rounds = remainder != 0 && remainder.unsigned_abs() >= below;
        return quotient.checked_add(i128::from(rounds) * sign(dividend, divisor));
    }
    let wide = i256::from_i128(divisor);
    let mut quotient = i256::from_i128(dividend.checked_div(divisor)?);
    let mut remainder = i256::from_i128(dividend.checked_rem(divisor)?);
    let mut rest = exponent;
    while rest > 0 {
        let step = rest.min(STEP);
        rest -= step;
        let factor = i256::from_i128(10).checked_pow(step)?;
        let shifted = remainder.checked_mul(factor)?;
        quotient = quotient.checked_mul(factor)?.checked_add(shifted.checked_div(wide)?)?;
        remainder = shifted.checked_rem(wide)?;
    }
    let remainder = remainder.to_i128()?.unsigned_abs();
    let rounds = remainder != 0 && remainder >= divisor.unsigned_abs() - remainder;
    quotient.to_i128()?.checked_add(i128::from(rounds) * sign(dividend, divisor))
}

/// Returns the sign of a product or quotient of numbers that are not zero.
fn sign(one: i128, other: i128) -> i128 {
    one.signum() * other.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_rounded() {
        for (dividend, divisor, exponent, expected) in [
            (1, 3, 4, Some(3333)),
            (2, 3, 4, Some(6667)),
            (-2, 3, 4, Some(-6667)),
            (1, -2, 0, Some(-1)),
            (1, 2, 0, Some(1)),
            (5, 10, 0, Some(1)),
            (-5, 11, 0, Some(0)),
            (1, 0, 2, None),
            (10_i128.pow(37), 3, 1, Some(33_333_333_333_333_333_333_333_333_333_333_333_333)),
            (2 * 10_i128.pow(37), 3 * 10_i128.pow(37), 38, Some(66_666_666_666_666_666_666_666_666_666_666_666_667)),
            (1, 7 * 10_i128.pow(37), 76, Some(142_857_142_857_142_857_142_857_142_857_142_857_143)),
            (-1, 7 * 10_i128.pow(37), 76, Some(-142_857_142_857_142_857_142_857_142_857_142_857_143)),
            (10_i128.pow(37), 1, 2, None),
        ] {
            assert_eq!(rounded_quotient(dividend, divisor, exponent), expected, "{dividend} / {divisor}");
        }
    }
}
