/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words for values that are shown
 */

#include <glib.h>

#include "backtrail/words.h"

static const char *const events[] = {
    [BTRAIL_EVENT_CR3] = "cr3",
    [BTRAIL_EVENT_TIME] = "time",
    [BTRAIL_EVENT_GAP] = "gap",
    [BTRAIL_EVENT_PAUSE] = "pause",
    [BTRAIL_EVENT_RESUME] = "resume",
    [BTRAIL_EVENT_END] = "end",
    [BTRAIL_EVENT_TASK] = "task",
    [BTRAIL_EVENT_KERNEL] = "kernel",
    [BTRAIL_EVENT_WAKE] = "wake",
};

static const char *const gaps[] = {
    [BTRAIL_GAP_OVERFLOW] = "overflow",
    [BTRAIL_GAP_OVERWRITTEN] = "overwritten",
    [BTRAIL_GAP_AGENT_LOST] = "agent-lost",
    [BTRAIL_GAP_RESET] = "reset",
    [BTRAIL_GAP_RESTORED] = "restored",
    [BTRAIL_GAP_DEBUGGER] = "debugger",
    [BTRAIL_GAP_CORRUPT] = "corrupt",
    [BTRAIL_GAP_PRODUCER_LOST] = "producer-lost",
    [BTRAIL_GAP_GUEST_BTS] = "guest-bts",
    [BTRAIL_GAP_NESTED] = "nested",
    [BTRAIL_GAP_SMM] = "smm",
    [BTRAIL_GAP_MODE] = "mode",
    [BTRAIL_GAP_ADDRESS_SPACE] = "address-space",
    [BTRAIL_GAP_UNMAPPED] = "unmapped",
    [BTRAIL_GAP_EPT_FAULT] = "ept-fault",
    [BTRAIL_GAP_BUFFER_FULL] = "buffer-full",
    [BTRAIL_GAP_SPOILT] = "spoilt",
    [BTRAIL_GAP_PT_OVERFLOW] = "packets-lost",
    [BTRAIL_GAP_PT_RING] = "ring-full",
    [BTRAIL_GAP_CODE_UNREADABLE] = "code-unreadable",
    [BTRAIL_GAP_CODE_CHANGED] = "code-changed",
    [BTRAIL_GAP_PT_LOST] = "lost-way",
    [BTRAIL_GAP_NOT_TRACED] = "not-traced",
    [BTRAIL_GAP_ELSEWHERE] = "elsewhere",
};

static const char *const pauses[] = {
    [BTRAIL_PAUSE_OVERFLOW] = "overflow",
    [BTRAIL_PAUSE_VM_STOP] = "vm-stop",
};

static const char *const ends[] = {
    [BTRAIL_END_STOPPED] = "stopped",
    [BTRAIL_END_SHUTDOWN] = "shutdown",
    [BTRAIL_END_MIGRATED] = "migrated",
    [BTRAIL_END_UNPLUGGED] = "unplugged",
    [BTRAIL_END_PRODUCER_LOST] = "producer-lost",
    [BTRAIL_END_CUT] = "cut",
};

static const char *const sidebands[] = {
    [BTRAIL_SIDEBAND_CODE] = "code",
    [BTRAIL_SIDEBAND_SYMBOLS] = "symbols",
    [BTRAIL_SIDEBAND_PROCESSES] = "processes",
    [BTRAIL_SIDEBAND_IMAGE] = "images",
    [BTRAIL_SIDEBAND_SYSCALLS] = "syscalls",
    [BTRAIL_SIDEBAND_DYNAMIC] = "functions",
    [BTRAIL_SIDEBAND_TOLD_PROCESSES] = "told-processes",
    [BTRAIL_SIDEBAND_TOLD_SYMBOLS] = "told-symbols",
    [BTRAIL_SIDEBAND_HELD] = "held",
    [BTRAIL_SIDEBAND_ENDED] = "ended",
};

static const char *const certainties[] = {
    [BTRAIL_UNKNOWN] = "unknown",
    [BTRAIL_LIKELY] = "likely",
    [BTRAIL_SURE] = "sure",
};

static const char *const producers[] = {
    [BTRAIL_PRODUCER_TCG] = "tcg",
    [BTRAIL_PRODUCER_KVM] = "kvm",
    [BTRAIL_PRODUCER_PT] = "pt",
};

static const char *const policies[] = {
    [BTRAIL_OVERFLOW_PAUSE] = "pause",
    [BTRAIL_OVERFLOW_DROP] = "drop",
    [BTRAIL_OVERFLOW_OVERWRITE] = "overwrite",
};

static const char *const privileges[] = {
    [BTRAIL_PRIVILEGE_USER] = "user",
    [BTRAIL_PRIVILEGE_KERNEL] = "kernel",
    [BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL] = "all",
};

static const struct {
    uint64_t address;
    const char *word;
} pseudos[] = {
    { BTRAIL_PSEUDO_TO_KERNEL, "[to kernel]" },
    { BTRAIL_PSEUDO_SYSCALL, "[syscall]" },
    { BTRAIL_PSEUDO_PAGE_FAULT, "[page fault]" },
    { BTRAIL_PSEUDO_EXCEPTION, "[exception]" },
    { BTRAIL_PSEUDO_INTERRUPT, "[interrupt]" },
    { BTRAIL_PSEUDO_FROM_KERNEL, "[from kernel]" },
    { BTRAIL_PSEUDO_TO_USER, "[to user]" },
    { BTRAIL_PSEUDO_FROM_USER, "[from user]" },
};

static int find(const char *const *words, unsigned n, const char *word)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        if (word && !g_strcmp0(words[i], word)) {
            return i;
        }
    }
    return -BTRAIL_ERR_ARGUMENT;
}

#define NAME(words, i)      ((i) < G_N_ELEMENTS(words) ? (words)[i] : NULL)
#define VALUE(words, word)  find(words, G_N_ELEMENTS(words), word)

const char *btrail_event_name(unsigned type)
{
    return NAME(events, type);
}

const char *btrail_reason_name(unsigned type, unsigned reason)
{
    switch (type) {
    case BTRAIL_EVENT_GAP:
        return NAME(gaps, reason);
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
        return NAME(pauses, reason);
    case BTRAIL_EVENT_END:
        return NAME(ends, reason);
    default:
        return NULL;
    }
}

const char *btrail_pseudo_name(uint64_t address)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(pseudos); i++) {
        if (pseudos[i].address == address) {
            return pseudos[i].word;
        }
    }
    return NULL;
}

const char *btrail_sideband_name(unsigned kind)
{
    return NAME(sidebands, kind);
}

const char *btrail_certainty_name(unsigned certainty)
{
    return NAME(certainties, certainty);
}

const char *btrail_producer_name(unsigned producer)
{
    return NAME(producers, producer);
}

const char *btrail_overflow_name(unsigned policy)
{
    return NAME(policies, policy);
}

int btrail_overflow_value(const char *word)
{
    return VALUE(policies, word);
}

const char *btrail_privilege_name(unsigned privilege)
{
    return NAME(privileges, privilege);
}

int btrail_privilege_value(const char *word)
{
    return VALUE(privileges, word);
}
