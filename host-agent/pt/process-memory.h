/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of another process, read only
 *
 * A process that ends leaves its number to others.  What is opened here stays
 * that of the first one: afterwards there is nothing to read and no thread.
 */

#ifndef BTRAIL_PROCESS_MEMORY_H
#define BTRAIL_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/agent-error.h"

struct process_memory;

/**
 * process_memory_open - a process, to read its memory
 * @memory: its memory, which a program with more rights has opened
 *          (pt-open.h), and which stays the caller's; -1: it is opened here
 *
 * Returns NULL and @error if there is no such process, or it may not be read:
 * that takes the rights of ptrace(2), unless @memory is given.
 */
struct process_memory *process_memory_open(pid_t pid, int memory,
                                           GError **error);

/* The same for its threads only, which everybody may see; or NULL */
struct process_memory *process_memory_find(pid_t pid, GError **error);
void process_memory_free(struct process_memory *p);

/*
 * The thread that the process itself calls by this number, which is another one
 * in a container; 0 if there is none
 */
pid_t process_memory_thread(const struct process_memory *p, pid_t number);

/* The file in which its bytes are at their addresses; stays its own.  -1 of a
 * process that was only found */
int process_memory_fd(const struct process_memory *p);

/**
 * process_memory_file - the file of which a range is a shared mapping
 * @offset: gets where in the file the range begins
 *
 * What such a file has not been written to yet takes no memory if it is read
 * there, and does if the process's memory is read.
 *
 * Returns a descriptor to read it, to be closed; or -1 if the range is private,
 * is of several files, or has one that cannot be opened: then its bytes are in
 * the process's memory only.
 */
int process_memory_file(const struct process_memory *p, uint64_t address,
                        uint64_t size, uint64_t *offset);

#endif /* BTRAIL_PROCESS_MEMORY_H */
