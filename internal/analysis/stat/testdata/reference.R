# Reference vectors for package stat, from base R alone.
#
#   Rscript reference.R > reference.json
#
# Exact methods without ties are R's own functions. Where R does something else
# than this package, the rule is spelled out here, in R, from the definition:
#   - ties and zeros: R drops zeros and turns to a normal approximation; this
#     package keeps the exact distribution and counts ties against rejection;
#   - intervals of large samples: R finds the root of the approximate test
#     numerically; this package takes the order statistics of Hollander & Wolfe,
#     equation (3.34) and (4.36), with continuity correction.
RNGkind("Mersenne-Twister", "Inversion", "Rejection")
set.seed(20261120)

num <- function(x) ifelse(is.na(x), "null", ifelse(is.infinite(x), ifelse(x > 0, "1e999", "-1e999"), sprintf("%.17g", x)))
arr <- function(x) paste0("[", paste(num(x), collapse = ","), "]")
obj <- function(...) {
  f <- list(...)
  paste0("{", paste0("\"", names(f), "\":", unlist(f), collapse = ","), "}")
}
lst <- function(l) paste0("[\n    ", paste(unlist(l), collapse = ",\n    "), "\n  ]")
str <- function(s) paste0("\"", s, "\"")

# From here on: the definitions.

walsh <- function(d) { w <- outer(d, d, "+") / 2; sort(w[upper.tri(w, diag = TRUE)]) }

# The k-th smallest and k-th largest of v, for the largest k with 2 P(T <= k-1) <= alpha.
# The factor makes 1 - 0.9 as large as 2 / 20 in binary.
invert <- function(v, lower, level) {
  c <- 0
  while (2 * lower(c) <= (1 - level) * (1 + 1e-12)) c <- c + 1
  if (c == 0) return(c(NA, NA, NA))
  c(v[c], v[length(v) + 1 - c], 1 - 2 * lower(c - 1))
}
twosided <- function(v, lower) {
  c <- min(sum(v <= 0), sum(v >= 0))
  if (c > length(v) / 2) 1 else min(1, 2 * lower(c))
}
signedrank_lower <- function(n) {
  if (n <= 50) return(function(c) psignrank(c, n))
  function(c) pnorm((c + 0.5 - n * (n + 1) / 4) / sqrt(n * (n + 1) * (2 * n + 1) / 24))
}
ranksum_lower <- function(m, n) {
  if (m <= 50 && n <= 50) return(function(c) pwilcox(c, m, n))
  function(c) pnorm((c + 0.5 - m * n / 2) / sqrt(m * n * (m + n + 1) / 12))
}

signedrank <- function(name, d, level) {
  n <- length(d); w <- walsh(d); lower <- signedrank_lower(n)
  i <- invert(w, lower, level); p <- twosided(w, lower)
  if (!any(d == 0) && !any(duplicated(abs(d)))) {
    # R must say the same, or this script is wrong.
    r <- suppressWarnings(wilcox.test(d, exact = n <= 50, correct = TRUE, conf.int = n <= 50, conf.level = level))
    stopifnot(abs(r$p.value - p) < 1e-12)
    if (n <= 50) {
      stopifnot(abs(r$estimate - median(w)) < 1e-12)
      if (!is.na(i[1])) stopifnot(all(abs(r$conf.int - i[1:2]) < 1e-12))
    }
    p <- r$p.value
  }
  obj(name = str(name), x = arr(d), confidence = num(level), estimate = num(median(w)),
      low = num(i[1]), high = num(i[2]), level = num(i[3]), p = num(p))
}
ranksum <- function(name, x, y, level) {
  v <- sort(outer(x, y, "-")); lower <- ranksum_lower(length(x), length(y))
  i <- invert(v, lower, level); p <- twosided(v, lower); exact <- length(x) <= 50 && length(y) <= 50
  if (!any(duplicated(c(x, y)))) {
    r <- suppressWarnings(wilcox.test(x, y, exact = exact, correct = TRUE, conf.int = exact, conf.level = level))
    stopifnot(abs(r$p.value - p) < 1e-12)
    if (exact) {
      stopifnot(abs(r$estimate - median(v)) < 1e-12)
      if (!is.na(i[1])) stopifnot(all(abs(r$conf.int - i[1:2]) < 1e-12))
    }
    p <- r$p.value
  }
  obj(name = str(name), x = arr(x), y = arr(y), confidence = num(level), estimate = num(median(v)),
      low = num(i[1]), high = num(i[2]), level = num(i[3]), p = num(p))
}

noise <- function(n, shift = 0) round(rnorm(n, shift), 6)

sr <- list()
for (n in c(1, 2, 5, 6, 7, 9, 10, 15, 20, 33, 49, 50, 51, 60, 100))
  sr <- c(sr, signedrank(paste0("normal ", n), noise(n, 0.3), 0.95))
for (level in c(0.5, 0.8, 0.9, 0.99, 0.999))
  sr <- c(sr, signedrank(paste0("level ", level), noise(12, 0.5), level))
sr <- c(sr,
  signedrank("heavy tails", round(rt(25, 2), 6), 0.95),
  signedrank("one sign", abs(noise(8)) + 0.1, 0.95),
  signedrank("large effect", noise(50, 5), 0.95),
  signedrank("far from zero", 1e9 + noise(20), 0.95),
  signedrank("tiny", 1e-200 * noise(20, 0.5), 0.95),
  signedrank("ties", round(rnorm(20, 1), 0), 0.95),
  signedrank("zeros", c(0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7), 0.95),
  signedrank("all zero", rep(0, 10), 0.95),
  signedrank("all the same", rep(2, 10), 0.95),
  signedrank("symmetric", c(-3, -2, -1, 1, 2, 3), 0.95),
  signedrank("ties, many", round(rnorm(80, 0.5), 0), 0.95))

rs <- list()
for (m in list(c(1, 1), c(3, 3), c(4, 4), c(3, 12), c(10, 10), c(20, 17), c(50, 50), c(50, 7), c(51, 50), c(60, 80), c(5, 100)))
  rs <- c(rs, ranksum(paste("normal", m[1], m[2]), noise(m[1], 0.4), noise(m[2]), 0.95))
for (level in c(0.5, 0.9, 0.99))
  rs <- c(rs, ranksum(paste0("level ", level), noise(9, 0.5), noise(11), level))
rs <- c(rs,
  ranksum("level of a discrete step", c(1.1, 2.2, 3.3), c(1, 2, 5), 0.9),
  ranksum("ties", round(rnorm(15, 1)), round(rnorm(12)), 0.95),
  ranksum("all the same", rep(1, 8), rep(1, 8), 0.95),
  ranksum("apart", 10 + noise(9), noise(9), 0.95),
  ranksum("ties, many", round(rnorm(70, 1)), round(rnorm(60)), 0.95))

qu <- list()
for (n in c(1, 2, 3, 10, 101)) {
  x <- noise(n); p <- c(0, 0.01, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.99, 1)
  qu <- c(qu, obj(x = arr(x), p = arr(p), want = arr(quantile(x, p, type = 7, names = FALSE))))
}

# Order statistics by the binomial distribution, conservative on each side.
qi <- list()
for (c in list(c(5, .5, .95), c(6, .5, .95), c(10, .5, .95), c(25, .5, .9), c(61, .5, .95), c(200, .5, .99),
               c(100, .9, .95), c(100, .99, .95), c(1000, .99, .95), c(40, .25, .8))) {
  n <- c[1]; x <- sort(noise(n)); tail <- (1 - c[3]) * (1 + 1e-12) / 2
  l <- 0; while (pbinom(l, n, c[2]) <= tail) l <- l + 1
  u <- 1; while (u <= n && pbinom(u - 1, n, c[2], lower.tail = FALSE) > tail) u <- u + 1
  ok <- l >= 1 && u <= n
  level <- 1 - pbinom(l - 1, n, c[2]) - pbinom(u - 1, n, c[2], lower.tail = FALSE)
  qi <- c(qi, obj(x = arr(sample(x)), p = num(c[2]), confidence = num(c[3]), ok = if (ok) "true" else "false",
                  low = num(if (ok) x[l] else NA), high = num(if (ok) x[u] else NA), level = num(if (ok) level else NA)))
}

ho <- list()
for (p in list(c(0.01, 0.02, 0.03, 0.04), c(0.04, 0.01, 0.03, 0.005), c(0.5, 0.9, 1), 0.03, round(runif(20)^2, 6),
               c(0.02, NA, 0.01, NA, 0.2), c(0.01, 0.01, 0.01)))
  ho <- c(ho, obj(p = arr(p), want = arr(p.adjust(p, "holm"))))

# A perfect order of n values has probability 2/n! by chance; Student's t gives 0.
tr <- list()
for (x in list(noise(5), noise(10), noise(30) + (1:30) / 15, round(noise(20)), 1:6, 8:1, noise(200))) {
  n <- length(x)
  r <- suppressWarnings(cor.test(x, seq_along(x), method = "spearman", exact = FALSE))
  tr <- c(tr, obj(x = arr(x), rho = num(r$estimate), p = num(max(r$p.value, 2 / factorial(n)))))
}

# R has the coefficient; the moments are those of Dufour & Roy 1985.
ac <- list()
for (n in c(10, 20, 60)) for (k in 1:2) {
  x <- noise(n); r <- acf(x, plot = FALSE)$acf[k + 1]
  m <- -(n - k) / (n * (n - 1))
  v <- (n^4 - (k + 3) * n^3 + 3 * k * n^2 + 2 * k * (k + 1) * n - 4 * k^2) / ((n + 1) * n^2 * (n - 1)^2)
  ac <- c(ac, obj(x = arr(x), lag = num(k), r = num(r), p = num(2 * pnorm(-abs(r - m) / sqrt(v)))))
}

# The power of the paired t-test for a true +5 %, from the noncentral t
# distribution; sd is that of the differences of logarithms.
po <- list()
for (n in c(9, 10, 19, 20, 57, 60)) for (sd in c(0.05, 0.07, 0.1))
  po <- c(po, obj(n = num(n), sd = num(sd),
    power = num(power.t.test(n, delta = log(1.05), sd = sd, type = "paired", strict = TRUE)$power)))

cat("{\n  ", paste(c(
  paste0("\"signed_rank\": ", lst(sr)), paste0("\"rank_sum\": ", lst(rs)), paste0("\"quantile\": ", lst(qu)),
  paste0("\"quantile_interval\": ", lst(qi)), paste0("\"holm\": ", lst(ho)), paste0("\"trend\": ", lst(tr)),
  paste0("\"autocorrelation\": ", lst(ac)), paste0("\"paired_t_power\": ", lst(po))), collapse = ",\n  "), "\n}\n", sep = "")
