/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU's human monitor prints of a guest's memory and vCPUs
 *
 * QMP has none of it.  Of the text everything is taken to be as QEMU 7.2 and
 * 10.0 print it; what is not is an error, and never read in another way.
 */

#ifndef BTRAIL_HMP_TEXT_H
#define BTRAIL_HMP_TEXT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/agent-error.h"

/* Guest physical addresses where memory is, be it read-only */
struct hmp_range {
    uint64_t address;
    uint64_t size;
};

/**
 * hmp_parse_ranges - the memory of "info mtree -f"
 *
 * Of the address space "memory" it has what is RAM or ROM, in the order of
 * addresses, and of no more than it says: neither registers nor a device's own
 * memory that is mapped (ramd).  Returns an array of struct hmp_range to be
 * freed, or NULL and @error: not understood, or more than a few thousand.
 */
GArray *hmp_parse_ranges(const char *text, GError **error);

/* The address in QEMU's process, of "gpa2hva @address" */
bool hmp_parse_host_address(const char *text, uint64_t address,
                            uint64_t *host, GError **error);

/* The bytes of "xp /@{size}xb @address"; @size is a multiple of 8 */
bool hmp_parse_bytes(const char *text, uint64_t address, uint8_t *bytes,
                     size_t size, GError **error);

/**
 * struct hmp_registers - of a vCPU
 * @smm: it is in system management mode, and those are of that
 */
struct hmp_registers {
    uint64_t cr0;
    uint64_t cr3;
    uint64_t cr4;
    uint64_t efer;
    bool smm;
};

/* Those of "info registers" for one vCPU */
bool hmp_parse_registers(const char *text, struct hmp_registers *registers,
                         GError **error);

#endif /* BTRAIL_HMP_TEXT_H */
