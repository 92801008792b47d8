/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libbacktrail: the code bytes that were executed
 *
 * A trace can have, beside the records, the bytes that the vCPUs executed: the
 * contents of each page, and from which record on it had them.  So instructions
 * can be decoded even if the program is gone, or has changed itself.
 *
 * The conventions are those of trace.h.
 */

#ifndef BACKTRAIL_CODE_H
#define BACKTRAIL_CODE_H

#include "trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct btrail_code;

/**
 * btrail_code_open - find the code bytes of a trace
 * @code:  gets the handle; free with btrail_code_close()
 * @trace: must outlive @code
 *
 * A trace without code bytes is not an error.  Damaged pieces are left out; see
 * btrail_code_bad_pieces().
 *
 * Errors: ARGUMENT, IO, MEMORY.
 */
BTRAIL_API int btrail_code_open(struct btrail_code **code,
                                const struct btrail_trace *trace);

/**
 * btrail_code_close
 * @code: a handle or NULL
 */
BTRAIL_API void btrail_code_close(struct btrail_code *code);

/**
 * btrail_code_read - read bytes as a vCPU would have executed them
 * @vcpu:    the vCPU
 * @index:   of a record: between the record before it and this one
 * @cr3:     in force there.  Addresses from 2^63 on are shared by all address
 *           spaces; others belong to btrail_cr3_root(@cr3).
 * @address: linear address of the first byte
 * @buf:     gets the bytes
 * @size:    how many, at most INT_MAX
 *
 * Only pages that the vCPU had executed before the record are known.  The bytes
 * that it executed are right; others of these pages may be older.
 *
 * Returns how many bytes it has read: fewer than @size if what follows is
 * unknown, 0 if nothing is known.
 * Errors: ARGUMENT, IO, MEMORY, CORRUPT.
 */
BTRAIL_API int btrail_code_read(struct btrail_code *code, unsigned vcpu,
                                uint64_t index, uint64_t cr3,
                                uint64_t address, void *buf, size_t size);

/**
 * struct btrail_code_page - a page that a vCPU executed
 * @address: linear address of the page
 * @cr3:     the address space, as btrail_cr3_root() has it; 0 if @address is
 *           2^63 or more
 * @index:   from this record of the vCPU on it had the content
 * @content: number of the content.  Pages with the same bytes usually have the
 *           same number; others never do.
 * @vcpu:    the vCPU
 */
struct btrail_code_page {
    uint64_t address;
    uint64_t cr3;
    uint64_t index;
    uint64_t content;
    uint32_t vcpu;
};

/**
 * btrail_code_page - get all pages that were executed, one by one
 * @n:    from 0 on, until there are no more
 * @page: gets the page
 *
 * Pages come in any order.  A page comes once for each vCPU, address space and
 * content, or more often.
 *
 * Errors: ARGUMENT, END (there are no more).
 */
BTRAIL_API int btrail_code_page(const struct btrail_code *code, size_t n,
                                struct btrail_code_page *page);

/**
 * btrail_code_bad_pieces - damaged pieces that were left out
 *
 * If there are any, bytes can be missing, or older than they should be.
 */
BTRAIL_API uint64_t btrail_code_bad_pieces(const struct btrail_code *code);

#ifdef __cplusplus
}
#endif

#endif /* BACKTRAIL_CODE_H */
