/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions of x86: their lengths, and what branches
 */
#ifndef INSN_H
#define INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* QEMU's hflags, as printed in the third field of a Trace line. */
#define HF_CS32         (1u << 4)
#define HF_PE           (1u << 7)
#define HF_LMA          (1u << 14)
#define HF_CS64         (1u << 15)
#define HF_VM           (1u << 17)
#define HF_SMM          (1u << 19)
#define HF_GUEST        (1u << 21)

/* What an instruction may do to the flow of control. */
enum kind {
    K_NONE, K_REP, K_MOVCR,
    K_JCC, K_LOOP, K_JCXZ, K_INTO,
    K_JMP, K_CALL,
    K_JMP_IND, K_CALL_IND, K_RET,
    K_FAR_JMP, K_FAR_CALL, K_FAR_RET, K_IRET,
    K_INT, K_INT3, K_ICEBP,
    K_SYSCALL, K_SYSRET, K_SYSENTER, K_SYSEXIT, K_RSM, K_VMRUN,
    /* not instructions: */
    K_HARDWARE, K_ASYNC, K_SMI, K_VMEXIT, K_INJECTED, K_EXCEPTION,
    K_MAX
};

extern const char *const kind_name[K_MAX];

enum mode {
    M_REAL, M_VM86, M_PROT16, M_PROT32, M_COMPAT16, M_COMPAT32, M_LONG, M_MAX
};

extern const char *const mode_name[M_MAX];

/* An instruction as it was executed */
struct insn {
    uint64_t pc;            /* linear address */
    const uint8_t *bytes;
    unsigned len;
    /* What insn_classify() finds out: */
    enum kind kind;
    bool opsize16, has_target;
    uint8_t addr_bits, cond;
    uint64_t target;
};

enum mode mode_of(uint32_t flags);
unsigned insn_len(const uint8_t *b, const uint8_t *end, uint32_t flags);

/*
 * Finds out what an instruction does, from its bytes, and where it branches
 * to if that is in them.  Returns false if it is a branch whose displacement
 * has an impossible size.
 */
bool insn_classify(struct insn *insn, uint32_t flags, uint64_t cs_base);

#endif
