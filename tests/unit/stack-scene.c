/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One vCPU whose stack a test follows by hand: see stack-scene.h
 */

#include "stack-scene.h"

struct process stack_scene_process = {
    .cr3 = 0x1000, .who = &stack_scene_process, .owner = &stack_scene_process,
    .known = true,
};

struct stack_moves *stack_scene_new(const struct function *first)
{
    struct stack_moves *moves = g_new0(struct stack_moves, 1);
    struct stack_cpu *cpu = &moves->contexts.cpus[0];

    stack_tree_init(&moves->tree, false, &moves->counts);
    stack_contexts_init(&moves->contexts, &moves->tree, &moves->counts);
    moves->parked = g_array_new(FALSE, FALSE, sizeof(struct stack_parked));
    moves->contexts.n_cpus = 1;
    cpu->process = &stack_scene_process;
    cpu->ctx = stack_context_new(&moves->contexts, &stack_scene_process);
    cpu->ctx->node = stack_root_child(&moves->contexts, cpu->ctx, first);
    return moves;
}

void stack_scene_free(struct stack_moves *moves)
{
    stack_contexts_clear(&moves->contexts);
    stack_tree_clear(&moves->tree);
    g_array_unref(moves->parked);
    g_free(moves);
}
