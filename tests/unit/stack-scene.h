/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One vCPU whose stack a test follows by hand
 */

#ifndef BTRAIL_STACK_SCENE_H
#define BTRAIL_STACK_SCENE_H

#include "symbolize/stack-return.h"

/* A process whose records are followed */
extern struct process stack_scene_process;

/* It is in a function, of which no caller is known; its vCPU is the first of
 * the contexts. */
struct stack_moves *stack_scene_new(const struct function *first);
void stack_scene_free(struct stack_moves *moves);

#endif /* BTRAIL_STACK_SCENE_H */
