/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What runs in the guests of tests/guests: one file each, and one program for
 * all, which goes by the name that it is started with
 */
#ifndef GUESTS_PROGRAMS_H
#define GUESTS_PROGRAMS_H

#include <stdbool.h>

int account_main(int argc, char **argv);
int box_main(int argc, char **argv);
int bpf_main(int argc, char **argv);
int counted_main(int argc, char **argv);
int gone_main(int argc, char **argv);
int inner_main(int argc, char **argv);
int kexec_main(int argc, char **argv);
int memfd_main(int argc, char **argv);
int nested_main(int argc, char **argv);
int spin_main(int argc, char **argv);
int uring_main(int argc, char **argv);

/* Compute for a while. */
void spin(unsigned ms);

/* Give a vCPU of KVM what it can have. */
void copy_cpuid(int kvm, int cpu);

/* Print what has failed, with the reason in errno, and end. */
_Noreturn void die(const char *what);

#endif
