/* The clocks Bailey uses: BOOTTIME for deadlines (it counts suspend), MONOTONIC for measuring. */
#pragma once
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t boottime_ms(void)
{
	return clock_ns(CLOCK_BOOTTIME) / 1000000u;
}

static inline uint64_t monotonic_us(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000u;
}
