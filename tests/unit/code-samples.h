/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code in traces that tests write, and names for it
 */

#ifndef BTRAIL_CODE_SAMPLES_H
#define BTRAIL_CODE_SAMPLES_H

#include "symbolize/symbolizer.h"

/* For --map: a kernel whose branches say what tasks do, a function each 256
 * bytes */
#define SAMPLE_KERNEL \
    "ffffffff81000000 T __switch_to_asm\n" \
    "ffffffff81000100 T enter_lazy_tlb\n" \
    "ffffffff81000200 T switch_mm_irqs_off\n" \
    "ffffffff81000300 T do_idle\n" \
    "ffffffff81000400 T ret_from_fork\n" \
    "ffffffff81000500 T kernel_clone\n" \
    "ffffffff81000600 T do_exit\n" \
    "ffffffff81000700 T other\n"

/**
 * struct sample_code - a page that has code
 * @vcpu, @index, @cr3: from this record of the vCPU on, in this address space
 * @address: of the page
 * @bytes:   at its beginning; the rest is NOPs
 */
struct sample_code {
    unsigned vcpu;
    uint64_t index;
    uint64_t cr3;
    uint64_t address;
    const uint8_t *bytes;
    size_t n;
};

/* Adds code to a trace. */
void sample_code(struct btrail_writer *w, const struct sample_code *pages,
                 size_t n);

/* Functions of a kernel, "f0" and so on: each calls at each multiple of 16, and
 * returns at its end. */
#define SAMPLE_PITCH    0x100u
#define SAMPLE_CALLS    14
#define SAMPLE_RET      0xf0u

/* Where one begins */
static inline uint64_t sample_function(unsigned number)
{
    return UINT64_C(0xffffffff81000000) + SAMPLE_PITCH * number;
}

/* Adds the names of @n functions, and of their end; and their code. */
void sample_functions(struct btrail_writer *w, uint64_t cr3, unsigned n);

/* The same, which vCPUs 0 to before @vcpus run */
void sample_functions_of(struct btrail_writer *w, uint64_t cr3, unsigned n,
                         unsigned vcpus);

/* Adds a snapshot that names a process with code of 32 bits in one page. */
void sample_low_process(struct btrail_writer *w, uint64_t cr3,
                        uint64_t address);

/* A symbolizer of a trace, or of none, with the text of a file of --map */
struct symbolizer *sample_symbolizer(const struct btrail_trace *trace,
                                     const char *map);

#endif /* BTRAIL_CODE_SAMPLES_H */
