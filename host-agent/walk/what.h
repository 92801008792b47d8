/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens at moments that a person looks for
 *
 *   FUNCTION, PROCESS:FUNCTION
 *                       each time that it runs
 *   *ADDRESS            each time that the instruction there runs
 *   switch, switch to PROCESS
 *                       the kernel switches to another task, or to one of a
 *                       process of this name
 *   syscall, syscall NAME
 *   interrupt, interrupt VECTOR, interrupt NAME
 *   exception, exception VECTOR, exception NAME
 *                       the kernel's code for it begins; names are those of
 *                       Linux (apic_timer_interrupt, page_fault), and for
 *                       exceptions also those of the SDM (#PF)
 *   mark:NAME, mark:NAME=VALUE, mark:
 *                       each mark of programs; see marks.h
 *   any other place     that moment; see place.h
 */

#ifndef BTRAIL_WHAT_H
#define BTRAIL_WHAT_H

#include "walk/place.h"
#include "walk/sought.h"

enum walk_what_kind {
    WALK_WHAT_PLACE,
    WALK_WHAT_FUNCTION,
    WALK_WHAT_INSTRUCTION,
    WALK_WHAT_SWITCH,
    WALK_WHAT_SYSCALL,
    WALK_WHAT_INTERRUPT,
    WALK_WHAT_EXCEPTION,
    WALK_WHAT_MARK,
};

/**
 * struct walk_what
 * @place:   WALK_WHAT_PLACE, WALK_WHAT_FUNCTION and WALK_WHAT_MARK
 * @name:    of a process, system call, interrupt or exception; NULL for any
 * @address: of an instruction
 */
struct walk_what {
    enum walk_what_kind kind;
    struct walk_place place;
    char *name;
    uint64_t address;
};

/* False if the text is none of these, with an error that lists them */
bool walk_what_parse(const char *text, struct walk_what *what, GError **error);
void walk_what_clear(struct walk_what *what);

/**
 * walk_what_sought - the code that runs at these moments
 * @symbols: of @trace; or NULL
 *
 * Not for WALK_WHAT_PLACE and WALK_WHAT_SWITCH.
 * Errors: NAMES: the trace does not say where this code is; COMMAND.
 */
struct sought *walk_what_sought(const struct walk_what *what,
                                const struct btrail_trace *trace,
                                struct symbolizer *symbols, GError **error);

#endif /* BTRAIL_WHAT_H */
