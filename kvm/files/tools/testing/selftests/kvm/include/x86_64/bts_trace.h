/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Branch Trace Store (BTS) of guests: code whose branches are known by its
 * labels
 */
#ifndef SELFTEST_KVM_BTS_TRACE_H
#define SELFTEST_KVM_BTS_TRACE_H

#include "bts.h"

extern char jmp_from[], jmp_to[], loop_from[], loop_to[], call_from[],
	    call_to[], ret_from[], ret_to[], end_from[], end_to[];

static const struct {
	char *from, *to;
} branches[] = {
	{ jmp_from, jmp_to },
	{ loop_from, loop_to },
	{ loop_from, loop_to },
	{ call_from, call_to },
	{ ret_from, ret_to },
	{ end_from, end_to },
};

/* Some branches, traced */
static noinline void trace(uint64_t debugctl)
{
	asm volatile("sub	$128, %%rsp\n\t"	/* red zone */
		     "wrmsr\n"
		     "jmp_from: jmp jmp_to\n\t"
		     "nop\n"
		     "jmp_to: mov $3, %%ebx\n"
		     "loop_to: dec %%ebx\n"
		     "loop_from: jnz loop_to\n"
		     "call_from: call call_to\n"
		     "ret_to:\n"
		     "end_from: jmp end_to\n"
		     "call_to:\n"
		     "ret_from: ret\n"
		     "end_to: xor %%eax, %%eax\n\t"
		     "wrmsr\n\t"
		     "add	$128, %%rsp\n\t"
		     : "+a" (debugctl)
		     : "c" (MSR_IA32_DEBUGCTLMSR), "d" (0)
		     : "rbx", "memory", "cc");
}

static inline void assert_branches(void)
{
	int i;

	bts_assert_nr_records(ARRAY_SIZE(branches));
	for (i = 0; i < ARRAY_SIZE(branches); i++)
		bts_assert_record(i, branches[i].from, branches[i].to);
}

#endif /* SELFTEST_KVM_BTS_TRACE_H */
