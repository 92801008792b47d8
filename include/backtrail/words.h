/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libbacktrail: words for values that are shown
 *
 * Each enum that is shown to a user has one table of words.  They are those
 * of QMP, of the JSON output of the command, and of a trace's description.
 */

#ifndef BACKTRAIL_WORDS_H
#define BACKTRAIL_WORDS_H

#include "names.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * btrail_event_name - the word for a type of events, such as "gap"
 * @type: enum btrail_event_type
 *
 * Like all functions here that return a word, it returns a constant string,
 * or NULL if the value is unknown.
 */
BTRAIL_API const char *btrail_event_name(unsigned type);

/**
 * btrail_reason_name - the word for the reason of an event
 * @type:   enum btrail_event_type
 * @reason: enum btrail_gap_reason or BTRAIL_GAP_ELSEWHERE, enum
 *          btrail_pause_reason, enum btrail_end_reason or BTRAIL_END_CUT
 *
 * Events that are not a GAP, PAUSE, RESUME or END have no reason.
 */
BTRAIL_API const char *btrail_reason_name(unsigned type, unsigned reason);

/**
 * btrail_sideband_name - the word for a kind of sideband, such as "symbols"
 * @kind: enum btrail_sideband_kind
 */
BTRAIL_API const char *btrail_sideband_name(unsigned kind);

/**
 * btrail_certainty_name - the word for how sure an answer is
 * @certainty: enum btrail_certainty
 */
BTRAIL_API const char *btrail_certainty_name(unsigned certainty);

/**
 * btrail_producer_name - the word for a producer, such as "tcg"
 * @producer: enum btrail_producer
 */
BTRAIL_API const char *btrail_producer_name(unsigned producer);

/**
 * btrail_overflow_name - the word for an overflow policy, such as "pause"
 * @policy: enum btrail_overflow_policy
 */
BTRAIL_API const char *btrail_overflow_name(unsigned policy);

/**
 * btrail_overflow_value - the overflow policy of a word
 * @word: as btrail_overflow_name() returns it
 *
 * Returns an enum btrail_overflow_policy.
 * Errors: ARGUMENT (also if there is no such policy).
 */
BTRAIL_API int btrail_overflow_value(const char *word);

/**
 * btrail_privilege_name - the word for privilege levels: "user", "kernel",
 *                         "all"
 * @privilege: BTRAIL_PRIVILEGE_*, one or both
 */
BTRAIL_API const char *btrail_privilege_name(unsigned privilege);

/**
 * btrail_privilege_value - the privilege levels of a word
 * @word: as btrail_privilege_name() returns it
 *
 * Returns BTRAIL_PRIVILEGE_*, one or both.
 * Errors: ARGUMENT (also if there is no such word).
 */
BTRAIL_API int btrail_privilege_value(const char *word);

#ifdef __cplusplus
}
#endif

#endif /* BACKTRAIL_WORDS_H */
