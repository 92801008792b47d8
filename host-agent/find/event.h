/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens at moments that a person looks for
 *
 *   FUNCTION, PROCESS:FUNCTION
 *                       each time that it runs
 *   *ADDRESS            each time that the instruction there runs
 *   switch, switch to TASK, switch from TASK
 *                       the kernel switches to another task; TASK is a name, or
 *                       a number
 *   switch blocked, switch preempted, switch dead
 *                       and why the one before leaves; "from" and "to" can
 *                       follow
 *   wake, wake TASK, wake by TASK
 *                       the kernel wakes a task
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

#ifndef BTRAIL_FIND_EVENT_H
#define BTRAIL_FIND_EVENT_H

#include "find/place.h"
#include "find/switches.h"
#include "find/target.h"

enum find_event_kind {
    FIND_EVENT_PLACE,
    FIND_EVENT_FUNCTION,
    FIND_EVENT_INSTRUCTION,
    FIND_EVENT_SWITCH,
    FIND_EVENT_WAKE,
    FIND_EVENT_SYSCALL,
    FIND_EVENT_INTERRUPT,
    FIND_EVENT_EXCEPTION,
    FIND_EVENT_MARK,
};

/**
 * struct find_event
 * @place:   FIND_EVENT_PLACE, FIND_EVENT_FUNCTION and FIND_EVENT_MARK
 * @name:    of a system call, interrupt or exception; of the task that is
 *           switched to, or woken; NULL for any
 * @from:    of the task that leaves, or wakes; or NULL
 * @why:     it leaves
 * @address: of an instruction
 */
struct find_event {
    enum find_event_kind kind;
    struct find_place place;
    char *name;
    char *from;
    enum switch_why why;
    uint64_t address;
};

/* False if the text is none of these, with an error that lists them */
bool find_event_parse(const char *text, struct find_event *what,
                      GError **error);
void find_event_clear(struct find_event *what);

/*
 * Is it about the task that leaves or wakes, not the one that is switched to or
 * woken?
 */
bool find_event_is_from(const struct find_event *what);

/**
 * find_event_target - the code that runs at these moments
 * @symbols: of @trace; or NULL
 *
 * Not for FIND_EVENT_PLACE, FIND_EVENT_SWITCH and FIND_EVENT_WAKE.
 * Errors: NAMES: the trace does not say where this code is; COMMAND.
 */
struct find_target *find_event_target(const struct find_event *what,
                                      const struct btrail_trace *trace,
                                      struct symbolizer *symbols,
                                      GError **error);

#endif /* BTRAIL_FIND_EVENT_H */
