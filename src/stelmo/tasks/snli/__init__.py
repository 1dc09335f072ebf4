"""Natural language inference (Bowman et al. 2015): does a premise entail a hypothesis, contradict it, or neither?"""
