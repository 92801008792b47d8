/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory something takes
 */
#ifndef GROWN_H
#define GROWN_H

#include <stdbool.h>
#include <stdint.h>

/* Sanitizers take memory of their own: nothing is to be learned there. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* Run something in a process of its own; returns by how many bytes it grows. */
uint64_t grown(void (*run)(void *opaque), void *opaque);

#endif /* GROWN_H */
